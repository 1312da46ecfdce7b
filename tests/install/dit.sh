#!/usr/bin/env bash
# dit.sh TREE: the installed dit makes an image with the model that it holds, on the ranks of a job joined by the plugin
# installed beside it.
set -euo pipefail
dit=$1/bin/dit
unset DIT_PLUGIN_PATH
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
$MPIEXEC "$dit" generate --size 32 --steps 2 --schedule v-first -o "$folder/image.png"
text=$("$dit" inspect "$folder/image.png")
for line in "model: embedded" "plugin: tapa" "ranks: 2" "size: 32x32"; do
  grep -qF "$line" <<<"$text" || { echo "the image does not say '$line':"; echo "$text"; exit 1; }
done
