# Completion of @TOOL@'s command lines for bash, made from its option table.
_@TOOL@() {
    local word=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]} kind=
    # Bash takes --option=word apart into three.
    if [[ $word == = ]]; then
        word=
    elif [[ $option == = ]]; then
        option=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    case $option in
@CASES@
    *) [[ $word == -* ]] && kind=OPTION || kind=MODEL ;;
    esac

    local from='' ending='*'
    case $kind in
    OPTION) from='@WORDS@' ;;
    FORMAT) from='onnx text' ;;
    RECIPE) from=$(tempoc --list-passes | awk '/^recipes:/ { on = 1; next } on && $1 !~ /^--/ { print $1 }') ;;
    OPTIMIZER) from='adamw adam sgd lamb' ;;
    SCHEDULE) from='linear cosine constant' ;;
    PASS) from="all $(@TOOL@ --list-passes | awk '/^$/ { exit } NR > 1 { print $1 }')" ;;
    LIST) from=$(@TOOL@ --list-passes | awk '/^$/ { exit } NR > 1 { print $1 }') ;;
    RULE) from="all $(@TOOL@ --list-rules | awk '/^  [a-z]/ { print $1 }')" ;;
    MODEL) ending='*.onnx*' ;;
    FILE.*) ending="*.${kind#*.}" ;;
    esac
    COMPREPLY=()
    case $kind in
    MODEL|FILE|FILE.*)
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -d -- "$word"; compgen -f -X "!$ending" -- "$word" |
            while IFS= read -r file; do
            [[ -d $file ]] || printf '%s\n' "$file"; done) ;;
    DIR)
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
    LIST) # of passes, between commas
        compopt -o nospace 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -P "${word%"${word##*,}"}" -W "$from" -- "${word##*,}") ;;
    *)
        mapfile -t COMPREPLY < <(compgen -W "$from" -- "$word")
        [[ ${COMPREPLY[*]} == *= ]] && compopt -o nospace 2>/dev/null
        : ;;
    esac
}
complete -F _@TOOL@ @TOOL@
