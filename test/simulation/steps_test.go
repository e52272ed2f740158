package simulation

import (
	"slices"
)

// everyStep returns all steps that are possible now.
func (w *world) everyStep() []action {
	return slices.Concat(
		w.progress(), w.lost(), w.late(), w.lists(), w.creations(names()), w.twins(), w.ofProxies(), w.ofDelegates(),
		w.ofChaperons(), w.ends(), w.times(), w.ofSource(), w.ofTargets(), w.olds(), w.freezes(),
		w.outages(), w.rooms(), w.moves(), w.backups(), w.clocks(),
	)
}

// repeat does the steps of these labels. It leaves those out that are not possible.
func (w *world) repeat(labels []string) {
	for _, label := range labels {
		if w.failed() != nil {
			return
		}
		all := w.everyStep()
		if i := slices.IndexFunc(all, func(a action) bool { return a.label == label }); i >= 0 {
			w.do(all[i])
		}
	}
}

// lost are requests that fail.
func (w *world) lost() []action { return w.failures() }

// lists are watches that end, so that a cache lists anew.
func (w *world) lists() []action {
	var all []action
	for _, l := range w.behind() {
		all = append(all, action{label: l.name + " misses changes, and lists", do: l.relist})
	}
	return all
}

// failures are requests that do not arrive, or are not answered.
func (w *network) failures() []action {
	var all []action
	for _, c := range w.underWay() {
		for f := range faults {
			if f == busy && c.served {
				continue // A server says before it carries a request out that it is busy.
			}
			all = append(all, action{label: c.label + " " + f.String(), do: func() { c.fail(f); w.answer(c) }})
		}
	}
	return all
}

// late are requests that are carried out, and not answered yet, or nobody waits for them.
func (w *world) late() []action { return w.delays(w.cut) }

func (w *network) delays(cut func(*process, *cluster) bool) []action {
	var all []action
	for _, c := range w.underWay() {
		if !c.served && !cut(c.by, c.to) {
			all = append(all, action{label: c.label + " is carried out, and not answered yet", do: c.serve})
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, c := range w.late {
		all = append(all, action{label: c.label + " arrives late", do: func() {
			c.serve()
			w.mu.Lock()
			defer w.mu.Unlock()
			w.late = slices.Delete(w.late, i, i+1)
		}})
	}
	return all
}
