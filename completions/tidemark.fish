# Completion of tidemark in fish. The program prints what fits; fish completes files, too.
function __tidemark_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    if test (count $words) -eq 1
        $words[1] help --complete 2>/dev/null
    else
        $words[1] $words[2] --complete $words[3..-1] "$current" 2>/dev/null
    end
end
complete -c tidemark -a '(__tidemark_complete)'
