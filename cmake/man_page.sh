#!/bin/sh
# man_page.sh FOLDER NAME VERSION PROGRAM [WORD]: writes FOLDER/NAME.1 from what `PROGRAM [WORD] --help` prints. Where the program
# cannot run there is no page, and a line that says so: a page is no reason for a build to fail.
folder=$1 name=$2 version=$3
shift 3
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 LC_ALL=C.UTF-8
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
# The program goes by the name that it is installed under, which is in its usage.
called=$scratch/bin/${name%"${2:+-$2}"}
mkdir "$scratch/bin" && ln -s "$1" "$called"
# help2man calls a program without words, by the name that the page shall have.
printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$called" "${2-}" >"$scratch/$name"
chmod +x "$scratch/$name"
summary=$("$scratch/$name" --help </dev/null 2>/dev/null | grep -vi '^usage' | grep -m 1 '[a-z]' | sed 's/\.$//')
if help2man --no-info --name="${summary:-$name}" --version-string="$version" --source="tapa $version" \
    --output="$scratch/page" "$scratch/$name" >/dev/null 2>&1; then
  mkdir -p "$folder" && mv "$scratch/page" "$folder/$name.1"
else
  echo "no man page of $name: '$* --help' does not run here"
  rm -f "$folder/$name.1"
fi
