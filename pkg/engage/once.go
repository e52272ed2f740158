package engage

import "sync"

// Once returns a function for preparations that observers need before their first target, and not while they have none.
// It calls do, for one caller at a time, until do succeeds, and never again. Unlike sync.OnceValue, it does not keep an
// error.
func Once(do func() error) func() error {
	var (
		mu   sync.Mutex // guards done
		done bool
	)
	return func() error {
		mu.Lock()
		defer mu.Unlock()
		if done {
			return nil
		}
		if err := do(); err != nil {
			return err
		}
		done = true
		return nil
	}
}
