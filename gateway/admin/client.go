package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// A Client asks the gateway that serves a data folder. Its methods fail with ErrNotServing when none does.
type Client struct {
	http *http.Client
}

const answerWithin = 30 * time.Second

// NewClient makes a client for a data folder; it connects when it is used.
func NewClient(dir string) *Client {
	transport := &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return Dial(ctx, dir) },
		DisableKeepAlives: true, // a command asks once
	}
	return &Client{&http.Client{Transport: transport, Timeout: answerWithin}}
}

func ask[Out any](ctx context.Context, c *Client, path string, in any) (Out, error) {
	var out Out
	body, err := json.Marshal(in)
	if err != nil {
		return out, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://gateway"+path, bytes.NewReader(body))
	if err != nil {
		return out, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.http.Do(req)
	if err != nil {
		return out, fmt.Errorf("ask the gateway: %w", err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	if err != nil {
		return out, fmt.Errorf("read the gateway's answer: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		var refused Error
		if err := json.Unmarshal(answer, &refused); err != nil || refused.Message == "" {
			return out, fmt.Errorf("the gateway answered %s", res.Status)
		}
		return out, &refused
	}
	if err := json.Unmarshal(answer, &out); err != nil {
		return out, fmt.Errorf("read the gateway's answer: %w", err)
	}
	return out, nil
}

// AddUser makes a person and the first sign-in link.
func (c *Client) AddUser(ctx context.Context, in UserRef) (SignInLink, error) {
	return ask[SignInLink](ctx, c, pathAddUser, in)
}

// LinkUser makes another sign-in link.
func (c *Client) LinkUser(ctx context.Context, in UserRef) (SignInLink, error) {
	return ask[SignInLink](ctx, c, pathLinkUser, in)
}

// Users lists the people of a tenant.
func (c *Client) Users(ctx context.Context, in TenantRef) (UserList, error) {
	return ask[UserList](ctx, c, pathUsers, in)
}

// CreateKey makes an API key for a person.
func (c *Client) CreateKey(ctx context.Context, in NewKey) (CreatedKey, error) {
	return ask[CreatedKey](ctx, c, pathCreateKey, in)
}

// Keys lists the API keys of a tenant, without the keys.
func (c *Client) Keys(ctx context.Context, in TenantRef) (KeyList, error) {
	return ask[KeyList](ctx, c, pathKeys, in)
}

// RevokeKey ends an API key.
func (c *Client) RevokeKey(ctx context.Context, in IDRef) (IDRef, error) {
	return ask[IDRef](ctx, c, pathRevokeKey, in)
}

// Runners lists the runners of a tenant that are not revoked.
func (c *Client) Runners(ctx context.Context, in TenantRef) (RunnerList, error) {
	return ask[RunnerList](ctx, c, pathRunners, in)
}

// ApproveRunner approves the pairing that waits under a code, in the name of a person.
func (c *Client) ApproveRunner(ctx context.Context, in Approval) (Approved, error) {
	return ask[Approved](ctx, c, pathApproveRunner, in)
}

// RevokeRunner ends a runner of the tenant.
func (c *Client) RevokeRunner(ctx context.Context, in IDRef) (IDRef, error) {
	return ask[IDRef](ctx, c, pathRevokeRunner, in)
}

// ImportWorkflow puts a definition under its id.
func (c *Client) ImportWorkflow(ctx context.Context, in NewWorkflow) (Workflow, error) {
	return ask[Workflow](ctx, c, pathImportWorkflow, in)
}

// Workflows lists the definitions of a tenant.
func (c *Client) Workflows(ctx context.Context, in TenantRef) (WorkflowList, error) {
	return ask[WorkflowList](ctx, c, pathWorkflows, in)
}

// Status says what the gateway is.
func (c *Client) Status(ctx context.Context, in Nothing) (Status, error) {
	return ask[Status](ctx, c, pathStatus, in)
}
