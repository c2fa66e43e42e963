"""What a shell runs to complete a line: it asks `autodiff completion SHELL -- PLACE WORDS` for the words that fit.

Where nothing fits, the shells complete names of files.
"""

from __future__ import annotations

BASH = """\
_autodiff() {
    local line word="${COMP_LINE:0:COMP_POINT}"
    COMPREPLY=()
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(
        autodiff completion bash -- "$COMP_CWORD" "${COMP_WORDS[@]:1}" 2>/dev/null
    )
    [[ ${COMPREPLY[0]} == *[\\(=] || $word == *[\\"\\']* ]] && compopt -o nospace
    return 0
}
complete -o default -o nosort -F _autodiff autodiff
"""

ZSH = """\
#compdef autodiff
_autodiff() {
    local -a found
    found=("${(@f)$(autodiff completion zsh -- $((CURRENT - 1)) "${(@Q)words[2,-1]}" 2>/dev/null)}")
    if (( ${#found} )) && [[ -n ${found[1]} ]]; then
        compadd -Q -U -S '' -- "${found[@]}"
    else
        _files
    fi
}
compdef _autodiff autodiff
"""

FISH = """\
function __autodiff_words
    set -l before (commandline -opc)
    set -l words (commandline -op)
    set -l place (count $before)
    test (count $words) -gt $place; or set -a words ''
    set -l found (autodiff completion fish -- $place $words[2..-1] 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c autodiff -f -a '(__autodiff_words)'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}

# How each is put to use, for a reader of the script.
HOW = {
    "bash": 'add `eval "$(autodiff completion bash)"` to ~/.bashrc',
    "zsh": 'add `eval "$(autodiff completion zsh)"` to ~/.zshrc, after compinit',
    "fish": "`autodiff completion fish > ~/.config/fish/completions/autodiff.fish`",
}


def script(shell: str) -> str:
    """The script for a shell of `SCRIPTS`, with a comment that says how to use it."""
    first, *rest = SCRIPTS[shell].splitlines(keepends=True)
    how = f"# To use it: {HOW[shell]}\n"
    return "".join([first, how, *rest]) if first.startswith("#compdef") else "".join([how, first, *rest])
