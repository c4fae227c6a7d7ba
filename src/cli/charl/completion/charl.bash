# Completion of charl, charl-train and charl-bench for bash. The programs themselves know what may follow.

_charl() {
    local line=${COMP_LINE:0:COMP_POINT} part i mode= nospace= word meaning
    local -a words=()

    # bash splits words at = and : too. Put them together again: what follows no blank continues a word.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        part=${COMP_WORDS[i]}
        ((i == COMP_CWORD)) && part=$line && part=${part#"${part%%[![:space:]]*}"}
        if ((i > 0)) && [[ $line != [[:space:]]* ]]; then
            words[${#words[@]} - 1]+=$part
        else
            line=${line#"${line%%[![:space:]]*}"}
            words+=("$part")
        fi
        line=${line#"$part"}
    done
    word=${words[${#words[@]} - 1]}
    # What bash replaces begins behind the last of these characters.
    local keep=$word
    [[ $COMP_WORDBREAKS == *=* ]] || keep=${keep//=/_}
    [[ $COMP_WORDBREAKS == *:* ]] || keep=${keep//:/_}
    keep=${keep##*[=:]}
    local cut=$((${#word} - ${#keep}))

    COMPREPLY=()
    while IFS=$'\t' read -r word meaning; do
        case $word in
        :files | :dirs) mode=$word ;;
        :nospace) nospace=yes ;;
        *) COMPREPLY+=("${word:cut}") ;;
        esac
    done < <("$1" --complete "${words[@]:1}" 2>/dev/null)

    local typed=${words[${#words[@]} - 1]}
    local value=${typed##*=}
    if [[ $mode == :files ]]; then
        compopt -o filenames 2>/dev/null
        while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$value")
    elif [[ $mode == :dirs ]]; then
        compopt -o filenames 2>/dev/null
        while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -d -- "$value")
    fi
    [[ -n $nospace ]] && compopt -o nospace 2>/dev/null
    return 0
}

complete -F _charl charl charl-train charl-bench
