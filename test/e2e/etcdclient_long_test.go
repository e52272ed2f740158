//go:build e2e && long

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	writesEvery = 200 * time.Millisecond
	// etcdAnswers is the time after which a client of etcd asks another member.
	etcdAnswers = 2 * time.Second
)

// etcdState is what all members say of their cluster.
type etcdState struct {
	ids    map[string]string // by the name of the pod
	leader string            // name of the pod
}

// etcdAgrees waits until all members are in the cluster, and agree on the members and on one leader.
func (w *world) etcdAgrees(t *testing.T) (state *etcdState) {
	t.Helper()
	within(t, patience, "the members of etcd to agree", func(ctx context.Context) (err error) {
		state, err = w.etcdState(ctx)
		return err
	})
	t.Logf("etcd: members %v, leader %s", state.ids, state.leader)
	return state
}

func (w *world) etcdState(ctx context.Context) (*etcdState, error) {
	pods, err := w.etcdReady(ctx)
	if err != nil {
		return nil, err
	}
	if len(pods) != etcdMembers {
		return nil, fmt.Errorf("%d members are ready", len(pods))
	}
	state := &etcdState{ids: map[string]string{}}
	leaders, listed := map[string]string{}, map[string]map[string]string{}
	for i := range pods {
		name := pods[i].Name
		if state.ids[name], leaders[name], err = etcdStatus(ctx, &pods[i]); err != nil {
			return nil, err
		}
		if listed[name], err = etcdList(ctx, &pods[i]); err != nil {
			return nil, err
		}
		if state.ids[name] == leaders[name] {
			state.leader = name
		}
	}
	for name, members := range listed {
		if !maps.Equal(members, state.ids) {
			return nil, fmt.Errorf("the members are %v, %s knows %v", state.ids, name, members)
		}
		if state.leader == "" || leaders[name] != state.ids[state.leader] {
			return nil, fmt.Errorf("the leaders of the members %v are %v", state.ids, leaders)
		}
	}
	return state, nil
}

// etcdReady returns the proxies of the members that are ready.
func (w *world) etcdReady(ctx context.Context) (members []corev1.Pod, err error) {
	proxies, _, err := w.pods(ctx, w.c1)
	for _, proxy := range proxies {
		if proxy.DeletionTimestamp == nil && ready(&proxy) {
			members = append(members, proxy)
		}
	}
	return members, err
}

// etcdStatus returns the ID of a member, and that of its leader.
func etcdStatus(ctx context.Context, pod *corev1.Pod) (id, leader string, err error) {
	var status struct {
		Header struct {
			ID string `json:"member_id"`
		} `json:"header"`
		Leader string   `json:"leader"`
		Errors []string `json:"errors"`
	}
	if err := askEtcd(ctx, pod, "maintenance/status", struct{}{}, &status); err != nil {
		return "", "", err
	}
	if len(status.Errors) > 0 {
		return "", "", fmt.Errorf("%s says: %v", pod.Name, status.Errors)
	}
	return status.Header.ID, status.Leader, nil
}

// etcdList returns the IDs of the members that a member knows, by their names.
func etcdList(ctx context.Context, pod *corev1.Pod) (map[string]string, error) {
	var list struct {
		Members []struct {
			ID      string `json:"ID"`
			Name    string `json:"name"`
			Learner bool   `json:"isLearner"`
		} `json:"members"`
	}
	if err := askEtcd(ctx, pod, "cluster/member/list", map[string]bool{"linearizable": true}, &list); err != nil {
		return nil, err
	}
	ids := map[string]string{}
	for _, member := range list.Members {
		ids[member.Name] = member.ID
		if member.Learner {
			return nil, fmt.Errorf("%s is a learner", member.Name)
		}
	}
	if len(ids) != len(list.Members) {
		return nil, fmt.Errorf("two members have the same name: %v", list.Members)
	}
	return ids, nil
}

// etcdLedFrom makes a member on the virtual node the leader.
func (w *world) etcdLedFrom(t *testing.T, p *placement, node string) *etcdState {
	t.Helper()
	state := w.etcdAgrees(t)
	pods := map[string]*corev1.Pod{}
	candidate := ""
	for i := range p.proxies {
		pod := &p.proxies[i]
		pods[pod.Name] = pod
		if pod.Spec.NodeName == node {
			candidate = pod.Name
		}
	}
	if leader := pods[state.leader]; leader.Spec.NodeName != node {
		to := map[string]string{"targetID": state.ids[candidate]}
		if err := askEtcd(t.Context(), leader, "maintenance/transfer-leadership", to, nil); err != nil {
			t.Fatal(err)
		}
		state = w.etcdAgrees(t)
	}
	if pods[state.leader].Spec.NodeName != node {
		t.Fatalf("the leader is %s on %s", state.leader, pods[state.leader].Spec.NodeName)
	}
	return state
}

// compare expects that the members of c2 are new ones, among them that of the leader, and all others the same.
func (s *etcdState) compare(t *testing.T, after *etcdState, before *placement) {
	t.Helper()
	for _, proxy := range before.proxies {
		same := s.ids[proxy.Name] == after.ids[proxy.Name]
		if moved := proxy.Spec.NodeName == "admiralty-c2"; moved == same {
			t.Errorf("%s on %s is the same member after the drain: %t", proxy.Name, proxy.Spec.NodeName, same)
		}
	}
	if s.ids[s.leader] == after.ids[after.leader] {
		t.Errorf("%s still leads, with the ID %s", s.leader, s.ids[s.leader])
	}
}

// etcdWriter writes keys one after the other, each until it is acknowledged.
type etcdWriter struct {
	world  *world
	cancel context.CancelFunc
	done   chan struct{}

	// mu guards what follows.
	mu           sync.Mutex
	acknowledged int           // keys
	last         time.Time     // of the last acknowledgement
	longest      time.Duration // between two acknowledgements
	failed       int           // attempts
	failure      error         // of the last failed attempt
}

func (w *world) startWriting(t *testing.T) *etcdWriter {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	writer := &etcdWriter{world: w, cancel: cancel, done: make(chan struct{}), last: time.Now()}
	go writer.run(ctx)
	t.Cleanup(func() {
		cancel()
		<-writer.done
	})
	return writer
}

func (e *etcdWriter) run(ctx context.Context) {
	defer close(e.done)
	ticker := time.NewTicker(writesEvery)
	defer ticker.Stop()
	for number, attempt := 0, 0; ; attempt++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := e.write(ctx, number, attempt)
		if ctx.Err() != nil {
			return // Whether the key is written does not count any more.
		}
		if err != nil {
			e.note(func() { e.failed, e.failure = e.failed+1, err })
			continue
		}
		number++
		e.note(func() {
			e.acknowledged, e.longest, e.last = number, max(e.longest, time.Since(e.last)), time.Now()
		})
	}
}

func (e *etcdWriter) note(what func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	what()
}

// write writes a key through any ready member, as the clients of a Service do.
func (e *etcdWriter) write(ctx context.Context, number, attempt int) error {
	pods, err := e.world.etcdReady(ctx)
	if err != nil {
		return err
	}
	if len(pods) == 0 {
		return errors.New("no member is ready")
	}
	put := map[string][]byte{"key": etcdKey(number), "value": etcdValue(number)}
	return askEtcd(ctx, &pods[attempt%len(pods)], "kv/put", put, nil)
}

func etcdKey(number int) []byte   { return fmt.Appendf(nil, "key-%06d", number) }
func etcdValue(number int) []byte { return fmt.Appendf(nil, "value of %d", number) }

// awaitMore waits until more keys are acknowledged.
func (e *etcdWriter) awaitMore(t *testing.T) {
	t.Helper()
	want := 0
	e.note(func() { want = e.acknowledged + enoughWrites })
	eventually(t, fmt.Sprintf("%d keys to be acknowledged", want), func(context.Context) (err error) {
		e.note(func() {
			if e.acknowledged < want {
				err = fmt.Errorf("%d keys are, %d attempts failed: %w", e.acknowledged, e.failed, e.failure)
			}
		})
		return err
	})
}

// end stops the writer, and returns the number of keys that were acknowledged.
func (e *etcdWriter) end(t *testing.T) (acknowledged int) {
	t.Helper()
	e.cancel()
	<-e.done
	t.Logf("%d keys were acknowledged, %d attempts failed (the last one: %v); the longest time between two is %s",
		e.acknowledged, e.failed, e.failure, e.longest.Round(time.Millisecond))
	if e.longest > longestGap {
		t.Errorf("for %s no key was acknowledged, want at most %s", e.longest, longestGap)
	}
	return e.acknowledged
}

// expectWrites expects that each member has all keys that were acknowledged.
func (w *world) expectWrites(t *testing.T, acknowledged int) {
	t.Helper()
	pods, err := w.etcdReady(t.Context())
	if err != nil || len(pods) != etcdMembers {
		t.Fatalf("%d members are ready: %v", len(pods), err)
	}
	for i := range pods {
		var answer struct {
			KVs []struct {
				Key   []byte `json:"key"`
				Value []byte `json:"value"`
			} `json:"kvs"`
		}
		all := map[string][]byte{"key": []byte("key-"), "range_end": []byte("key.")}
		if err := askEtcd(t.Context(), &pods[i], "kv/range", all, &answer); err != nil {
			t.Fatal(err)
		}
		values := map[string]string{}
		for _, kv := range answer.KVs {
			values[string(kv.Key)] = string(kv.Value)
		}
		for number := range acknowledged {
			if got := values[string(etcdKey(number))]; got != string(etcdValue(number)) {
				t.Errorf("%s has the value %q of %s", pods[i].Name, got, etcdKey(number))
			}
		}
	}
}

// askEtcd calls the API of a member in JSON, and decodes the answer.
func askEtcd(ctx context.Context, pod *corev1.Pod, method string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, etcdAnswers)
	defer cancel()
	url := fmt.Sprintf("http://%s:%d/v3/%s", pod.Status.PodIP, clientPort, method)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("%s: %w", pod.Name, err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("%s: %w", pod.Name, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s with %s: %s", pod.Name, method, response.Status, bytes.TrimSpace(answer))
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}
