# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
#
# Sourced by fuzz/run, tests/run and bench/run: sets a fresh Debian 12 or Ubuntu 24.04 (or newer) up, and
# builds a preset. Idempotent: on a machine that has everything, from whatever source, it installs nothing and
# asks for nothing.
#
# Exit status 4: something is missing that cannot be installed here; what, and how to get it, is printed.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=$(nproc)

build_packages=(
  g++ cmake ninja-build  # to build at all
  librapidcheck-dev      # generators and properties
  libhwy-dev             # SIMD, chosen at run time
  libboost-dev           # Multiprecision: the 1280-bit arbiter
  libcli11-dev nlohmann-json3-dev libdlpack-dev
  libgtest-dev libgmock-dev libbenchmark-dev
)

fuzzer_packages=(clang-19 libclang-rt-19-dev)  # fuzz/fuzzers/run, and sanitizers in tests/run --all

Say() { printf '\n== %s\n' "$*"; }

# The command or the header by which a package that dpkg does not have is recognised: a conda environment, a
# module or an image may bring it.
declare -A shown_by=(
  [g++]=g++ [cmake]=cmake [ninja-build]=ninja [universal-ctags]=ctags [python3]=python3 [clang-19]=clang++-19
  [librapidcheck-dev]=rapidcheck.h [libhwy-dev]=hwy/highway.h
  [libboost-dev]=boost/multiprecision/cpp_bin_float.hpp [libcli11-dev]=CLI/CLI.hpp
  [nlohmann-json3-dev]=nlohmann/json.hpp [libdlpack-dev]=dlpack/dlpack.h [libgtest-dev]=gtest/gtest.h
  [libgmock-dev]=gmock/gmock.h [libbenchmark-dev]=benchmark/benchmark.h
)

# IsThere PACKAGE: by dpkg, or by what shows it.
IsThere() {
  local sign=${shown_by[$1]-} folder folders=(/usr/local /usr) more=()
  [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) != installed ]] || return 0
  [[ -n $sign ]] || return 1
  [[ $1 != g++ || -z ${CXX-} ]] || sign=$CXX  # a conda environment names its compiler so
  [[ $sign == *.h || $sign == *.hpp ]] || { command -v "$sign" >/dev/null; return; }
  [[ -z ${CONDA_PREFIX-} ]] || folders+=("$CONDA_PREFIX")
  IFS=':;' read -ra more <<<"${CMAKE_PREFIX_PATH-}"
  for folder in "${folders[@]}" "${more[@]}"; do
    [[ ! -e $folder/include/$sign ]] || return 0
  done
  return 1
}

# CannotInstall REASON PACKAGE…: says what is missing and how to get it, and ends.
CannotInstall() {
  local reason=$1 package lines=
  shift
  for package in "$@"; do lines+="  $package (${shown_by[$package]-no header or command to look for})"$'\n'; done
  printf '%s' "Missing here, by Debian's names and what was looked for:
$lines$reason Nothing was installed. Either
  as root, on Debian or Ubuntu:  apt-get update && apt-get install --no-install-recommends $*
  or without root, conda-forge:  conda install -c conda-forge cxx-compiler cmake ninja rapidcheck libhwy \\
                                   libboost-headers cli11 nlohmann_json dlpack gtest benchmark
and run this again, with the environment active.
" >&2
  exit 4
}

# InstallPackages WHY PACKAGE…: those of the packages that are missing, saying so first.
InstallPackages() {
  local why=$1 package missing=() as_root=()
  shift
  for package in "$@"; do
    IsThere "$package" || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    CannotInstall "This is neither Debian nor Ubuntu." "${missing[@]}"
  fi
  if [[ $(id -u) != 0 ]]; then
    command -v sudo >/dev/null || CannotInstall "Only root can install packages, and there is no sudo." "${missing[@]}"
    # Without a terminal nobody can type a password.
    [[ -t 0 ]] || sudo -n true 2>/dev/null ||
      CannotInstall "Only root can install packages, and sudo wants a password." "${missing[@]}"
    as_root=(sudo)
  fi
  Say "Installing from this machine's Debian or Ubuntu archive, $why: ${missing[*]}"
  ((${#as_root[@]} == 0)) || echo "Only root can install packages: sudo may ask for your password. Nothing else here needs root."
  "${as_root[@]}" apt-get update -q
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
}

# BuildPreset PRESET [-DVARIABLE=VALUE…] [TARGET…]: configures and builds into build/PRESET.
BuildPreset() {
  local preset=$1 variables=() targets=()
  shift
  while [[ ${1-} == -D* ]]; do variables+=("$1"); shift; done
  (($# == 0)) || targets=(--target "$@")
  Say "Building the $preset preset in $root/build/$preset"
  (cd "$root" && cmake --preset "$preset" "${variables[@]}" && cmake --build --preset "$preset" -j "$jobs" "${targets[@]}")
}
