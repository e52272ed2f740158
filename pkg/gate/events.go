package gate

import (
	"sync"

	"k8s.io/apimachinery/pkg/watch"
)

// filteredWatch passes the events of a watch on. In place of watch.Filter, whose goroutine would wait for ever to
// deliver an event after Stop, and would keep all that an engagement holds.
type filteredWatch struct {
	from   watch.Interface
	events chan watch.Event
	stop   sync.Once
	// stopped is closed by Stop.
	stopped chan struct{}
}

// filterWatch returns the events of a watch as pass returns them, without those for which it returns false. It takes
// over the watch.
func filterWatch(from watch.Interface, pass func(watch.Event) (watch.Event, bool)) watch.Interface {
	w := &filteredWatch{from: from, events: make(chan watch.Event), stopped: make(chan struct{})}
	go w.run(pass)
	return w
}

func (w *filteredWatch) run(pass func(watch.Event) (watch.Event, bool)) {
	defer close(w.events)
	for event := range w.from.ResultChan() {
		event, ok := pass(event)
		if !ok {
			continue
		}
		select {
		case w.events <- event:
		case <-w.stopped:
			return
		}
	}
}

// Stop ends the watch. An event that nobody has received is lost.
func (w *filteredWatch) Stop() {
	w.stop.Do(func() { close(w.stopped) })
	w.from.Stop()
}

// ResultChan returns the events. It is closed when the watch ends.
func (w *filteredWatch) ResultChan() <-chan watch.Event { return w.events }
