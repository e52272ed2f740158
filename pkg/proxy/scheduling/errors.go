package scheduling

// concludedError says that there is no pod to schedule any more.
type concludedError struct{}

// Error is for logs.
func (*concludedError) Error() string { return "the pod was deleted or bound while it was placed" }

// refusedError is a target's refusal to run a pod now. Another target may be tried at once.
type refusedError struct {
	target, reason string
	kind           refusal
	// roomier is how often the target had told of more room when it refused.
	roomier int64
}

// Error names the target.
func (e *refusedError) Error() string { return e.target + ": " + e.reason }

// createError says that the PodChaperon was not created, and that the target has not refused it.
type createError struct {
	target string
	cause  error
}

// Error names the target.
func (e *createError) Error() string {
	return "creating the PodChaperon in " + e.target + ": " + e.cause.Error()
}

// Unwrap returns the answer of the target's API server.
func (e *createError) Unwrap() error { return e.cause }
