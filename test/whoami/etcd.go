package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// etcdMember is a member of a cluster of etcd, in etcd's JSON.
type etcdMember struct {
	ID       string   `json:"ID"`
	PeerURLs []string `json:"peerURLs"`
}

// etcdChange is a request to etcd: the member to add or to remove, or that all earlier changes count for the answer.
type etcdChange struct {
	ID           string   `json:"ID,omitempty"`
	PeerURLs     []string `json:"peerURLs,omitempty"`
	Linearizable bool     `json:"linearizable,omitempty"`
}

// joining is a member without data that joins a cluster of etcd.
type joining struct {
	peer   string   // its peer URL
	others []string // client URLs of the other members
	turn   int      // which of the others to ask
}

// joinEtcd replaces the member of a peer URL in a cluster of etcd by a new one. A pod that has lost its data must not
// be the member that it was. If there are data, joinEtcd does nothing. It repeats its requests until SIGTERM.
func (p process) joinEtcd(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("etcd-join", flag.ContinueOnError)
	data := flags.String("data", "", "folder of the member's data")
	peer := flags.String("peer", "", "peer URL of the member")
	every := flags.Duration("every", time.Second, "time between attempts")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("parsing the flags of etcd-join: %w", err)
	}
	j, err := newJoining(*peer, flags.Args())
	if err != nil {
		return err
	}
	if *data == "" {
		return fmt.Errorf("etcd-join needs --data: %w", errUsage)
	}
	switch _, err := os.Stat(filepath.Join(*data, "member")); {
	case err == nil:
		p.log("%s has data", *peer)
		return nil
	case !errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("looking for data: %w", err)
	}
	var id string
	if err := p.until(ctx, *every, func(ctx context.Context) (err error) {
		id, err = j.replace(ctx)
		return err
	}); err != nil {
		return err
	}
	p.log("%s is the member %s", *peer, id)
	return p.until(ctx, *every, func(ctx context.Context) error { return j.known(ctx, id) })
}

// newJoining leaves out the member itself, so that all members can have the same list of URLs.
func newJoining(peer string, clients []string) (*joining, error) {
	own, err := url.Parse(peer)
	if err != nil || own.Hostname() == "" {
		return nil, fmt.Errorf("%q is no peer URL: %w", peer, errUsage)
	}
	j := &joining{peer: peer}
	for _, client := range clients {
		other, err := url.Parse(client)
		if err != nil || other.Hostname() == "" {
			return nil, fmt.Errorf("%q is no client URL: %w", client, errUsage)
		}
		if other.Hostname() != own.Hostname() {
			j.others = append(j.others, client)
		}
	}
	if len(j.others) == 0 {
		return nil, fmt.Errorf("etcd-join takes the client URLs of other members: %w", errUsage)
	}
	return j, nil
}

// until repeats an attempt, and logs why it failed.
func (p process) until(ctx context.Context, every time.Duration, attempt func(context.Context) error) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		err := attempt(ctx)
		if err == nil {
			return nil
		}
		p.log("failed: %v", err)
		select {
		case <-p.term:
			return fmt.Errorf("received SIGTERM: %w", err)
		case <-ticker.C:
		}
	}
}

// replace asks one of the others, another one each time.
func (j *joining) replace(ctx context.Context) (id string, err error) {
	other := j.others[j.turn%len(j.others)]
	j.turn++
	members, err := etcdMembers(ctx, other)
	if err != nil {
		return "", err
	}
	for _, member := range members {
		if !slices.Contains(member.PeerURLs, j.peer) {
			continue
		}
		if err := askEtcd(ctx, other+"/v3/cluster/member/remove", etcdChange{ID: member.ID}, nil); err != nil {
			return "", err
		}
	}
	var added struct {
		Member etcdMember `json:"member"`
	}
	if err := askEtcd(ctx, other+"/v3/cluster/member/add", etcdChange{PeerURLs: []string{j.peer}}, &added); err != nil {
		return "", err
	}
	return added.Member.ID, nil
}

// known returns nil if all others know the new member. etcd takes its own ID from the first one that answers, and could
// take that of the old member.
func (j *joining) known(ctx context.Context, id string) error {
	for _, other := range j.others {
		members, err := etcdMembers(ctx, other)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(members, func(m etcdMember) bool { return m.ID == id }) {
			return fmt.Errorf("%s does not know the member %s", other, id)
		}
	}
	return nil
}

func etcdMembers(ctx context.Context, endpoint string) ([]etcdMember, error) {
	var list struct {
		Members []etcdMember `json:"members"`
	}
	err := askEtcd(ctx, endpoint+"/v3/cluster/member/list", etcdChange{Linearizable: true}, &list)
	return list.Members, err
}

// askEtcd calls etcd's API in JSON, and decodes the answer.
func askEtcd(ctx context.Context, method string, in etcdChange, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encoding a request: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, method, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("making a request: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("asking: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("asking %s: status %s: %s", method, response.Status, answer)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("decoding the answer of %s: %w", method, err)
	}
	return nil
}
