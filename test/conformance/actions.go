package main

// actions returns all actions.
func actions() []*testCase {
	return nil
}
