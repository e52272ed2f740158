package env

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
)

// Fill has etcd say that its disk is full, as it does when its quota is used up. From then on, API servers read and
// delete objects, and write none, until MakeRoom.
func (c *Cluster) Fill(t T) {
	t.Helper()
	c.alarm(t, "ACTIVATE")
	t.Cleanup(func() { c.MakeRoom(t) })
}

// MakeRoom ends what Fill began. Doing so twice is harmless.
func (c *Cluster) MakeRoom(t T) {
	t.Helper()
	c.alarm(t, "DEACTIVATE")
}

func (c *Cluster) alarm(t T, action string) {
	t.Helper()
	var status struct {
		Header struct {
			MemberID string `json:"member_id"`
		} `json:"header"`
	}
	c.askEtcd(t, "status", map[string]string{}, &status)
	c.askEtcd(t, "alarm", map[string]string{
		"action": action, "alarm": "NOSPACE", "memberID": status.Header.MemberID,
	}, &struct{}{})
}

// askEtcd calls a function of etcd's maintenance API.
func (c *Cluster) askEtcd(t T, function string, request map[string]string, answer any) {
	t.Helper()
	body, err := json.Marshal(request)
	Must(t, err)
	address := c.environment.ControlPlane.Etcd.URL.JoinPath("v3", "maintenance", function).String()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	Must(t, err)
	response, err := http.DefaultClient.Do(r)
	Must(t, err)
	err = json.NewDecoder(response.Body).Decode(answer)
	Must(t, response.Body.Close())
	Must(t, err)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("the etcd of %s answers %s with the status %d", c.Name, function, response.StatusCode)
	}
}
