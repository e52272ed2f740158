package engage

import "sync"

// Once returns a function that does what observers need done before their first target, and do not need while there is
// none: it calls do, for one caller at a time, until that succeeds, and nothing after that. Unlike sync.OnceValue it
// does not keep an error that goes by.
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
