package scheduling

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// wakeInterval is the least time between two wake-ups of pods because of summaries of one target. A target's manager
// publishes no more often. Each wake-up looks at all pods that wait, of all targets.
const wakeInterval = 500 * time.Millisecond

// paced does something at once, and then at most once in each interval, if it was asked for meanwhile.
type paced struct {
	clock clock.WithDelayedExecution
	do    func()

	mu      sync.Mutex // guards the fields below
	again   bool       // it was asked for
	resting bool       // it was done less than an interval ago, or is being done
}

// ask does it now, or later.
func (p *paced) ask() {
	if p.begin() {
		p.doAndRest()
	}
}

// begin says whether it is to be done at once.
func (p *paced) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.resting {
		p.again = true
		return false
	}
	p.resting = true
	return true
}

func (p *paced) doAndRest() {
	p.do()
	p.clock.AfterFunc(wakeInterval, func() {
		if p.next() {
			p.doAndRest()
		}
	})
}

// next says whether it was asked for in the meantime.
func (p *paced) next() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	again := p.again
	p.again, p.resting = false, again
	return again
}
