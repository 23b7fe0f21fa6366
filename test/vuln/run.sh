#!/usr/bin/env bash
# Runs govulncheck over the binary as the image has it, which is built with the newest Go of the line that the Dockerfile names. The database is made of the
# module golang.org/x/vulndb, which holds the reports themselves: what is needed comes by way of the Go module proxy alone. The exit code is 3
# if a known vulnerability is called.
#
#   bash test/vuln/run.sh [PACKAGE...]
set -euo pipefail
cd "$(dirname "$0")/../.."

# The tool is pinned, as tools are; the database is the latest there is.
tool=golang.org/x/vuln/cmd/govulncheck@v1.9.0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Neither becomes a dependency of this module: a module of its own asks for them.
(cd "$scratch" && go mod init vuln >/dev/null 2>&1)
reports=$(cd "$scratch" && go mod download -json golang.org/x/vulndb@latest | sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p')
version=$(basename "$reports")
if [ ! -d "$reports/data/osv" ]; then
    echo "$version has no reports in data/osv" >&2
    exit 2
fi
# VULN_GO=local judges what the installed Go would build.
line=$(sed -n 's/^ARG GO_VERSION=//p' Dockerfile)
newest=$(go list -m -versions go | tr ' ' '\n' | grep -E "^${line//./\\.}(\\.[0-9]+)?$" | tail -n 1)
export GOTOOLCHAIN=${VULN_GO:-go$newest}
echo "database: $version, $(find "$reports/data/osv" -name 'GO-*.json' | wc -l) reports; $(go version)"
if [ $# -eq 0 ]; then
    set -- ./cmd/clusterdns
fi
go run "$tool" -db "file://$reports/data/osv" "$@"
