package scheduling

// settledError says that there is no pod to schedule any more.
type settledError struct{}

// Error is for logs.
func (*settledError) Error() string { return "the pod was deleted or bound while it was placed" }

// refusedError is a target's refusal to run a pod now. Another target may be tried at once.
type refusedError struct {
	target, reason string
	kind           refusal
	// roomier is how often the target had told of more room when it refused.
	roomier int64
}

// Error names the target.
func (e *refusedError) Error() string { return e.target + ": " + e.reason }
