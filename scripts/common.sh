# Shared by ./run and ./test; sourced, with $root set to the repository.
# All messages go to standard error, because standard output belongs to the job.

say() { printf '== %s\n' "$*" >&2; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# packages_in SECTION: prints the names listed in that section of ./packages.
packages_in() {
  awk -v wanted="$1:" '
    { sub(/#.*/, "") }
    $1 ~ /:$/ { inside = ($1 == wanted); next }
    inside && NF { print $1 }' "$root/packages"
}

# missing_packages SECTION: prints the packages of the section that are not installed, and that no
# installed package provides (Node's own packages provide npm).
missing_packages() {
  local names
  names=$(packages_in "$1")
  { dpkg-query -W -f '${db:Status-Status} ${Package} ${Provides}\n' 2>/dev/null || true; } |
    awk -v names="$names" '
      $1 == "installed" {
        gsub(/\([^)]*\)|,/, " ")
        for (i = 2; i <= NF; i++) have[$i] = 1
      }
      END {
        count = split(names, name, "\n")
        for (i = 1; i <= count; i++) if (!(name[i] in have)) print name[i]
      }'
}

# install_packages SECTION WHY: installs missing packages. If it cannot, it says why and returns 1.
install_packages() {
  local missing as_root=()
  if ! command -v dpkg-query >/dev/null; then
    say "not a Debian system: the packages listed in ./packages must be there already"
    return 0
  fi
  missing=$(missing_packages "$1")
  [[ -n $missing ]] || return 0

  say "installing" $missing "($2)"
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      say "packages are missing, and this is neither root nor a user with sudo; as root, run:" \
        "apt-get install" $missing
      return 1
    fi
    as_root=(sudo)
  fi
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive
    apt-get -qq -o DPkg::Lock::Timeout=300)
  "${apt[@]}" update >&2 || say "apt-get update failed; trying with the lists that are here"
  if ! "${apt[@]}" install --yes --no-install-recommends -o Dpkg::Use-Pty=0 $missing >&2; then
    say "apt-get could not install" $missing
    return 1
  fi
}

# build PRESET [TARGET]: configures if needed, then builds the target, or everything. The stamp
# names the folder that was configured, so that a copied tree or changed presets are configured
# afresh; ninja sees all other changes.
build() {
  local preset=$1 target=${2:-all} stamp="$root/build/$1/configured"
  if [[ ! -f $stamp || $(<"$stamp") != "$root" || $root/CMakePresets.json -nt $stamp ]]; then
    say "configuring $preset"
    (cd "$root" && cmake --preset "$preset" --fresh) >&2 || die "configuring $preset failed"
    printf '%s\n' "$root" >"$stamp"
  fi
  say "building $preset"
  (cd "$root" && cmake --build --preset "$preset" --target "$target" --parallel "$(nproc)") >&2 ||
    die "building $preset failed"
}
