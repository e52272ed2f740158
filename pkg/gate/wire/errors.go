package wire

import "fmt"

// BoundError means that an answer of the target is larger than allowed.
type BoundError struct {
	// What exceeds its bound, for users.
	What string
}

// Error says what is too large.
func (e *BoundError) Error() string { return "the target sent " + e.What }

// AnswerError means that the target's answer is none of an API server, or leads elsewhere.
type AnswerError struct {
	// Answer describes the answer, for users.
	Answer string
}

// Error describes the answer.
func (e *AnswerError) Error() string { return e.Answer }

// TimeoutError means that the target did not complete an answer in time. It is a net.Error.
type TimeoutError struct {
	// What was not complete.
	What string
}

// Error says what was not complete.
func (e *TimeoutError) Error() string { return e.What + " was not complete in time" }

// Timeout returns true.
func (*TimeoutError) Timeout() bool { return true }

// Temporary returns true.
func (*TimeoutError) Temporary() bool { return true }

// OverBudgetError means that a target costs more than it may.
type OverBudgetError struct {
	// Reason says what it costs, for users.
	Reason string
}

// Error says what the target costs.
func (e *OverBudgetError) Error() string { return "the target costs more than it may: " + e.Reason }

// AddressError means that a target may not have this address.
type AddressError struct {
	Address string
	Reason  string
	// Value is the chart's value that allows such addresses.
	Value string
}

// Error names the address and the reason.
func (e *AddressError) Error() string {
	return fmt.Sprintf("the address %s is %s", e.Address, e.Reason)
}
