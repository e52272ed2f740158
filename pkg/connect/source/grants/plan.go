package grants

import (
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/sets"
)

// plan is what a ClusterSource gets.
type plan struct {
	rights map[string]rights
	// live are the namespaces whose RoleBindings may be written: those that are not being deleted.
	live      []string
	undecided []string
	// problem says why namespaces are undecided.
	problem string
	// open are the namespaces about which a change of objects is of interest.
	open sets.Set[string]
}

func (p *plan) add(namespace string, d decision, terminating bool) {
	p.rights[namespace] = d.rights
	if !terminating {
		p.live = append(p.live, namespace)
	}
	if d.undecided {
		p.undecided = append(p.undecided, namespace)
	}
	if d.undecided || d.rights == leaving {
		p.open.Insert(namespace)
	}
}

func (p *plan) outcome(everywhere bool) Outcome {
	o := Outcome{Everywhere: everywhere, Problem: p.problem}
	for namespace, right := range p.rights {
		switch right {
		case full, kept:
			o.Namespaces = append(o.Namespaces, namespace)
		case leaving:
			o.Leaving = append(o.Leaving, namespace)
		case none:
		}
		if right == kept {
			o.WouldRefuse = append(o.WouldRefuse, namespace)
		}
	}
	slices.Sort(o.WouldRefuse)
	slices.Sort(o.Namespaces)
	slices.Sort(o.Leaving)
	return o
}

// openQuestions are the namespaces in which a source's rights depend on its objects there.
type openQuestions struct {
	answered atomic.Pointer[func(sources []string)]

	mu          sync.Mutex // guards byNamespace
	byNamespace map[string]sets.Set[string]
}

// add is called before objects are looked for, so that no deletion is missed.
func (q *openQuestions) add(namespace, source string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.byNamespace == nil {
		q.byNamespace = map[string]sets.Set[string]{}
	}
	if q.byNamespace[namespace] == nil {
		q.byNamespace[namespace] = sets.New[string]()
	}
	q.byNamespace[namespace].Insert(source)
}

// keep forgets the questions of a source about other namespaces.
func (q *openQuestions) keep(source string, namespaces sets.Set[string]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for namespace, asking := range q.byNamespace {
		if namespaces.Has(namespace) {
			continue
		}
		if asking.Delete(source); asking.Len() == 0 {
			delete(q.byNamespace, namespace)
		}
	}
}

// sources returns the sources with a question about a namespace, or about any if it is empty.
func (q *openQuestions) sources(namespace string) []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	if namespace != "" {
		return sets.List(q.byNamespace[namespace])
	}
	all := sets.New[string]()
	for _, asking := range q.byNamespace {
		all = all.Union(asking)
	}
	return sets.List(all)
}

// ask passes on that the answer to the questions about a namespace may have changed.
func (q *openQuestions) ask(namespace string) {
	if f := q.answered.Load(); f != nil {
		if sources := q.sources(namespace); len(sources) > 0 {
			(*f)(sources)
		}
	}
}
