# To use it: `autodiff completion fish > ~/.config/fish/completions/autodiff.fish`
function __autodiff_words
    set -l before (commandline -opc)
    set -l words (commandline -op)
    set -l place (count $before)
    test (count $words) -gt $place; or set -a words ''
    set -l found (autodiff completion fish -- $place $words[2..-1] 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c autodiff -f -a '(__autodiff_words)'
