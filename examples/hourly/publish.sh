#!/bin/sh
# publish.sh MODEL ONLINE - brings the version that counts in MODEL, and what it
# stands on, to ONLINE, where predictors look. What is there already is not copied
# again, so a delta costs what changed. CURRENT comes last: a predictor that watches
# ONLINE sees the old version or the new one, and nothing in between.
set -eu
model=$1 online=$2
version=$(cat "$model/CURRENT")

# The version that a delta changes; nothing for a whole one.
base()
{
    grep -o '"base": *"[^"]*"' "$model/$1/MANIFEST.json" | cut -d'"' -f4
}

# What a version stands on comes first.
bring()
{
    [ ! -d "$online/$1" ] || return 0
    for under in $(base "$1"); do
        bring "$under"
    done
    rm -rf "$online/part"
    cp -r "$model/$1" "$online/part"
    mv "$online/part" "$online/$1"
}

mkdir -p "$online"
bring "$version"
echo "$version" >"$online/next"
mv "$online/next" "$online/CURRENT"
echo "$version"
