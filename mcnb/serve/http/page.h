#pragma once

#include <string_view>

namespace mcnb {

// The dashboard: the files of web/, bundled into the program by cmake/web.cmake.
std::string_view page_html();
std::string_view page_script();
std::string_view page_style();
// The API page.
std::string_view page_docs();
std::string_view page_docs_script();

}  // namespace mcnb
