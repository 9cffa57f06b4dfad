#include "mcnb/storage/postgres.h"

#include <fmt/core.h>
#include <libpq-fe.h>
#include <poll.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <utility>

namespace mcnb {
namespace {

// The server's numbers of types (its catalog pg_type).
constexpr unsigned kBytea = 17;
constexpr unsigned kInt8 = 20;
constexpr unsigned kText = 25;
constexpr unsigned kByteaArray = 1001;
constexpr unsigned kInt8Array = 1016;

// Numbers travel with the highest byte first.
void append_big(std::string& bytes, std::uint64_t value, int width) {
  for (int i = width - 1; i >= 0; --i) {
    bytes += static_cast<char>(value >> (8 * i) & 0xff);
  }
}

// The head of an array of one dimension.
std::string array_head(unsigned element, std::size_t count) {
  std::string bytes;
  append_big(bytes, count == 0 ? 0 : 1, 4);  // dimensions
  append_big(bytes, 0, 4);                   // no nulls
  append_big(bytes, element, 4);
  if (count > 0) {
    append_big(bytes, count, 4);
    append_big(bytes, 1, 4);  // the first index
  }
  return bytes;
}

std::int64_t steady_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string trimmed(const char* text) {
  std::string line = text == nullptr ? "" : text;
  while (!line.empty() && (line.back() == '\n' || line.back() == ' ')) {
    line.pop_back();
  }
  for (char& c : line) {
    c = c == '\n' ? ' ' : c;
  }
  return line;
}

std::string field_of(const pg_result* result, int field) {
  const char* text = ::PQresultErrorField(result, field);
  return text == nullptr ? "" : text;
}

// The server ends the session, is no server to write to, or cannot be reached.
bool is_loss(const std::string& state) {
  return state.starts_with("57P") || state.starts_with("08") || state == "25006";
}

struct ParsedOption {
  std::string keyword;
  std::string value;
};

std::vector<ParsedOption> parse_url(const std::string& url) {
  char* problem = nullptr;
  PQconninfoOption* options = ::PQconninfoParse(url.c_str(), &problem);
  if (options == nullptr) {
    // libpq's text may repeat the URL and with it the password.
    ::PQfreemem(problem);
    throw Error(ErrorKind::kUsage,
                "store: expected a folder or a URL such as "
                "postgresql://user@host:5432/database, found a URL that libpq cannot read");
  }
  std::vector<ParsedOption> all;
  for (const PQconninfoOption* option = options; option->keyword != nullptr; ++option) {
    if (option->val != nullptr) {
      all.push_back({option->keyword, option->val});
    }
  }
  ::PQconninfoFree(options);
  return all;
}

}  // namespace

PostgresValues& PostgresValues::number(std::int64_t value) {
  Value& own = values_.emplace_back(Value{kInt8, {}});
  append_big(own.bytes, static_cast<std::uint64_t>(value), 8);
  return *this;
}

PostgresValues& PostgresValues::text(std::string_view value) {
  values_.push_back({kText, std::string(value)});
  return *this;
}

PostgresValues& PostgresValues::bytes(std::string_view value) {
  values_.push_back({kBytea, std::string(value)});
  return *this;
}

PostgresValues& PostgresValues::numbers(std::span<const std::int64_t> values) {
  Value& own = values_.emplace_back(Value{kInt8Array, array_head(kInt8, values.size())});
  own.bytes.reserve(own.bytes.size() + 12 * values.size());
  for (const std::int64_t value : values) {
    append_big(own.bytes, 8, 4);
    append_big(own.bytes, static_cast<std::uint64_t>(value), 8);
  }
  return *this;
}

PostgresValues& PostgresValues::all_bytes(std::span<const std::string_view> values) {
  Value& own = values_.emplace_back(Value{kByteaArray, array_head(kBytea, values.size())});
  for (const std::string_view value : values) {
    append_big(own.bytes, value.size(), 4);
    own.bytes += value;
  }
  return *this;
}

void PostgresRows::Clear::operator()(pg_result* result) const { ::PQclear(result); }

std::size_t PostgresRows::size() const {
  return static_cast<std::size_t>(::PQntuples(result_.get()));
}

std::int64_t PostgresRows::number(std::size_t row, int column) const {
  const std::string_view bytes = this->bytes(row, column);
  // Narrower columns are widened with their sign.
  std::int64_t value = !bytes.empty() && (bytes[0] & 0x80) != 0 ? -1 : 0;
  for (const char c : bytes) {
    value = static_cast<std::int64_t>(static_cast<std::uint64_t>(value) << 8U |
                                      static_cast<unsigned char>(c));
  }
  return value;
}

std::string_view PostgresRows::bytes(std::size_t row, int column) const {
  const int line = static_cast<int>(row);
  return {::PQgetvalue(result_.get(), line, column),
          static_cast<std::size_t>(::PQgetlength(result_.get(), line, column))};
}

bool PostgresRows::is_null(std::size_t row, int column) const {
  return ::PQgetisnull(result_.get(), static_cast<int>(row), column) != 0;
}

std::uint64_t PostgresRows::changed() const {
  return std::strtoull(::PQcmdTuples(result_.get()), nullptr, 10);
}

bool is_postgres_url(std::string_view text) {
  return text.starts_with("postgresql://") || text.starts_with("postgres://");
}

std::string postgres_name(const std::string& url) {
  std::string host;
  std::string port;
  std::string database;
  for (const ParsedOption& option : parse_url(url)) {
    if (option.keyword == "host" || (option.keyword == "hostaddr" && host.empty())) {
      host = option.value;
    } else if (option.keyword == "port") {
      port = ":" + option.value;
    } else if (option.keyword == "dbname") {
      database = option.value;
    }
  }
  return fmt::format("postgresql://{}{}/{}", host, port, database);
}

PostgresConnection::PostgresConnection(const std::string& url, const PostgresOptions& options)
    : name_(postgres_name(url)), patience_seconds_(options.patience_seconds) {
  connect(url, options);
}

void PostgresConnection::connect(const std::string& url, const PostgresOptions& options) {
  // Later ones win: what the URL says goes before the first ones.
  const std::array<std::pair<const char*, const char*>, 9> settings{{
      {"connect_timeout", "5"},
      {"keepalives_idle", "5"},
      {"keepalives_interval", "2"},
      {"keepalives_count", "3"},
      {"tcp_user_timeout", "10000"},
      {"target_session_attrs", "read-write"},
      {"dbname", url.c_str()},
      {"application_name", options.application.c_str()},
      {"client_encoding", "UTF8"},
  }};
  std::vector<const char*> keywords;
  std::vector<const char*> values;
  for (const auto& [keyword, value] : settings) {
    keywords.push_back(keyword);
    values.push_back(value);
  }
  keywords.push_back(nullptr);
  values.push_back(nullptr);
  handle_ = ::PQconnectdbParams(keywords.data(), values.data(), 1);
  if (handle_ == nullptr || ::PQstatus(handle_) != CONNECTION_OK) {
    const std::string why = trimmed(handle_ == nullptr ? "no memory" : ::PQerrorMessage(handle_));
    ::PQfinish(handle_);
    throw PostgresError(fmt::format("{}: cannot connect: {}", name_, why), "", true);
  }
  ::PQsetNoticeReceiver(
      handle_,
      [](void* self, const PGresult* notice) {
        if (field_of(notice, PG_DIAG_SEVERITY_NONLOCALIZED) == "WARNING") {
          static_cast<PostgresConnection*>(self)->warnings_.push_back(
              field_of(notice, PG_DIAG_SQLSTATE) + ": " +
              field_of(notice, PG_DIAG_MESSAGE_PRIMARY));
        }
      },
      this);
  if (::PQsetnonblocking(handle_, 1) != 0 || ::PQenterPipelineMode(handle_) != 1) {
    ::PQfinish(handle_);
    throw PostgresError(name_ + ": the connection refuses to pipeline", "", true);
  }
}

PostgresConnection::~PostgresConnection() { ::PQfinish(handle_); }

void PostgresConnection::lose(const std::string& why) {
  lost_ = true;
  throw PostgresError(fmt::format("{}: the connection was lost: {}", name_, why), "", true);
}

void PostgresConnection::require_success(bool success) {
  if (!success) {
    lose(trimmed(::PQerrorMessage(handle_)));
  }
}

PostgresRows PostgresConnection::run(const std::string& sql, const PostgresValues& values) {
  send(sql, values);
  return std::move(finish().front());
}

void PostgresConnection::send(const std::string& sql, const PostgresValues& values) {
  if (lost_) {
    lose("it is closed");
  }
  std::vector<Oid> types;
  std::vector<const char*> texts;
  std::vector<int> lengths;
  for (const PostgresValues::Value& value : values.values_) {
    types.push_back(value.type);
    texts.push_back(value.bytes.data());
    lengths.push_back(static_cast<int>(value.bytes.size()));
  }
  const std::vector<int> binary(types.size(), 1);
  const int count = static_cast<int>(types.size());
  std::string& statement = prepared_[sql];
  if (statement.empty()) {
    statement = fmt::format("s{}", ++last_statement_);
    sent_.push_back({true, sql});
    require_success(::PQsendPrepare(handle_, statement.c_str(), sql.c_str(), count, types.data()) ==
                    1);
  }
  sent_.push_back({false, sql});
  require_success(::PQsendQueryPrepared(handle_, statement.c_str(), count, texts.data(),
                                        lengths.data(), binary.data(), 1) == 1);
}

// Waits until the server has sent something, or until it takes more.
void PostgresConnection::wait(bool for_room) {
  const std::int64_t left = deadline_ - steady_now();
  pollfd file{.fd = ::PQsocket(handle_),
              .events = static_cast<short>(for_room ? POLLIN | POLLOUT : POLLIN),
              .revents = 0};
  const int ready = left <= 0 ? 0 : ::poll(&file, 1, static_cast<int>(left / 1'000'000 + 1));
  if (ready == 0) {
    lose(fmt::format("the server did not answer within {} s", patience_seconds_));
  }
  if (ready < 0 && errno != EINTR) {
    lose("poll failed");
  }
}

void PostgresConnection::flush() {
  for (int left = ::PQflush(handle_); left != 0; left = ::PQflush(handle_)) {
    require_success(left == 1);
    wait(true);
    require_success(::PQconsumeInput(handle_) == 1);
  }
}

// The next result; nullptr at the end of those of one statement.
pg_result* PostgresConnection::next_result() {
  while (::PQisBusy(handle_) != 0) {
    wait(false);
    require_success(::PQconsumeInput(handle_) == 1);
  }
  return ::PQgetResult(handle_);
}

PostgresError PostgresConnection::error_of(const pg_result* result) {
  const std::string state = field_of(result, PG_DIAG_SQLSTATE);
  std::string text = field_of(result, PG_DIAG_MESSAGE_PRIMARY);
  if (text.empty()) {
    text = trimmed(::PQresultErrorMessage(result));
  }
  if (const std::string detail = field_of(result, PG_DIAG_MESSAGE_DETAIL); !detail.empty()) {
    text += " (" + trimmed(detail.c_str()) + ")";
  }
  lost_ = lost_ || ::PQstatus(handle_) != CONNECTION_OK || is_loss(state);
  return {fmt::format("{}: {}", name_, text), state, lost_};
}

void PostgresConnection::collect_sync() {
  PostgresRows sync(next_result());
  lost_ = lost_ || ::PQstatus(handle_) != CONNECTION_OK;
}

std::vector<PostgresRows> PostgresConnection::finish() {
  warnings_.clear();
  deadline_ = steady_now() + static_cast<std::int64_t>(patience_seconds_ * 1e9);
  const std::vector<Sent> sent = std::exchange(sent_, {});
  require_success(::PQpipelineSync(handle_) == 1);
  flush();
  std::vector<PostgresRows> all;
  std::optional<PostgresError> problem;
  for (const Sent& own : sent) {
    while (pg_result* result = next_result()) {
      PostgresRows rows(result);
      const ExecStatusType status = ::PQresultStatus(result);
      if (status == PGRES_FATAL_ERROR && !problem) {
        problem = error_of(result);
      }
      if (own.prepares && status != PGRES_COMMAND_OK) {
        prepared_.erase(own.sql);
      }
      if (!own.prepares) {
        all.push_back(std::move(rows));
      }
    }
    if (::PQstatus(handle_) != CONNECTION_OK) {
      break;
    }
  }
  if (::PQstatus(handle_) == CONNECTION_OK) {
    collect_sync();
  } else if (!problem) {
    lose(trimmed(::PQerrorMessage(handle_)));
  }
  if (problem) {
    throw *problem;
  }
  return all;
}

void PostgresConnection::stream(const std::string& sql, const PostgresValues& values,
                                const std::function<void(const PostgresRows& row)>& visit) {
  send(sql, values);
  warnings_.clear();
  const auto extend = [&] {
    deadline_ = steady_now() + static_cast<std::int64_t>(patience_seconds_ * 1e9);
  };
  extend();
  const std::vector<Sent> sent = std::exchange(sent_, {});
  require_success(::PQpipelineSync(handle_) == 1);
  flush();
  std::optional<PostgresError> problem;
  for (const Sent& own : sent) {
    if (!own.prepares && !problem && ::PQsetSingleRowMode(handle_) != 1) {
      lose("it does not give single rows");
    }
    while (pg_result* result = next_result()) {
      const PostgresRows rows(result);
      const ExecStatusType status = ::PQresultStatus(result);
      if (status == PGRES_FATAL_ERROR && !problem) {
        problem = error_of(result);
        prepared_.erase(own.sql);
      } else if (status == PGRES_SINGLE_TUPLE) {
        try {
          visit(rows);
        } catch (...) {
          lost_ = true;
          throw;
        }
        extend();
      }
    }
    if (lost_) {
      break;
    }
  }
  if (problem) {
    if (!problem->lost()) {
      collect_sync();
    }
    throw *problem;
  }
  if (::PQstatus(handle_) != CONNECTION_OK) {
    lose(trimmed(::PQerrorMessage(handle_)));
  }
  collect_sync();
}

}  // namespace mcnb
