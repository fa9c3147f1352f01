# Store, continue, search, copy and move sessions, with any agent: sh -e sessions.sh my-agent --acp
dragoman run --quiet --session roof --prompt "The roof leaks above the window." -- "$@"
dragoman run --quiet --session roof --prompt "What did I say about the roof?" -- "$@"
dragoman sessions list
dragoman sessions search "leak*"
dragoman sessions fork roof loft
dragoman run --quiet --session loft --prompt "And if we used tiles?" -- "$@"
dragoman sessions show loft
dragoman sessions export loft loft.session
export XDG_STATE_HOME="$PWD/another-machine"
dragoman sessions import loft.session
dragoman run --quiet --session loft --prompt "Where were we?" -- "$@"
dragoman sessions list
