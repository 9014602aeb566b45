package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"runnerd/gateway/admin"
	"runnerd/gateway/engine"
	"runnerd/internal/cli"
)

// folder is the flag that every command has which needs the gateway's data.
type folder struct {
	Data string `placeholder:"DIR" help:"Folder that holds everything the gateway keeps."`
}

func (f folder) dir(w *world) (string, error) {
	return cli.Folder(f.Data, w.getenv, "runnerd-gateway")
}

// tenant is the flag of commands that work within one tenant.
type tenant struct {
	folder
	Tenant string `default:"default" help:"Tenant to work in."`
}

// ask calls do with the running gateway, over its socket, or with the store itself when nobody serves.
func ask[T any](ctx context.Context, f folder, w *world, do func(admin.Operations) (T, error)) (T, error) {
	var none T
	dir, err := f.dir(w)
	if err != nil {
		return none, err
	}
	if _, err := os.Stat(dir); err != nil {
		return none, fmt.Errorf("there is no gateway's data in %s: start `gateway serve` once, or name its folder with --data", dir)
	}
	answer, err := do(admin.NewClient(dir))
	if !errors.Is(err, admin.ErrNotServing) {
		return answer, err
	}
	ops, closeStore, err := openAdmin(ctx, dir, w)
	if err != nil {
		return none, err
	}
	answer, err = do(ops)
	return answer, errors.Join(err, closeStore())
}

type userCommands struct {
	Add  userAdd  `cmd:"" help:"Add a person and print a one-time sign-in link."`
	Link userLink `cmd:"" help:"Print another one-time sign-in link."`
	List userList `cmd:"" help:"List the people."`
}

type userAdd struct {
	tenant
	Name string `arg:"" help:"Name of the person: letters, digits, . _ - @"`
}

func (c *userAdd) Run(ctx context.Context, out *cli.Out, w *world) error {
	return signInLink(out)(ask(ctx, c.folder, w, func(a admin.Operations) (admin.SignInLink, error) {
		return a.AddUser(ctx, admin.UserRef{Tenant: c.Tenant, User: c.Name})
	}))
}

type userLink struct {
	tenant
	Name string `arg:"" help:"Name of the person."`
}

func (c *userLink) Run(ctx context.Context, out *cli.Out, w *world) error {
	return signInLink(out)(ask(ctx, c.folder, w, func(a admin.Operations) (admin.SignInLink, error) {
		return a.LinkUser(ctx, admin.UserRef{Tenant: c.Tenant, User: c.Name})
	}))
}

func signInLink(out *cli.Out) func(admin.SignInLink, error) error {
	return func(link admin.SignInLink, err error) error {
		if err != nil {
			return err
		}
		return out.Print(link, func(w io.Writer) {
			fmt.Fprintf(w, "%s signs in with this link, once, within an hour:\n\n  %s\n", link.User, link.Link)
		})
	}
}

type userList struct{ tenant }

func (c *userList) Run(ctx context.Context, out *cli.Out, w *world) error {
	list, err := ask(ctx, c.folder, w, func(a admin.Operations) (admin.UserList, error) {
		return a.Users(ctx, admin.TenantRef{Tenant: c.Tenant})
	})
	if err != nil {
		return err
	}
	return out.Print(list, table("USER\tSUBJECT\tSINCE", list.Users, func(u admin.User) []string {
		return []string{u.User, u.Subject, day(u.Created)}
	}))
}

type keyCommands struct {
	Create keyCreate `cmd:"" help:"Make an API key for a person; it is shown this once."`
	List   keyList   `cmd:"" help:"List the keys, without the keys."`
	Revoke keyRevoke `cmd:"" help:"End a key."`
}

type keyCreate struct {
	tenant
	User    string        `required:"" help:"Whose key it is."`
	Name    string        `help:"What it is for."`
	Scopes  []string      `help:"What it may do; everything unless given."`
	Expires time.Duration `placeholder:"720h" help:"How long it lives; for ever unless given."`
}

func (c *keyCreate) Run(ctx context.Context, out *cli.Out, w *world) error {
	if c.Expires < 0 {
		return cli.Usagef("expires: must not be negative")
	}
	key, err := ask(ctx, c.folder, w, func(a admin.Operations) (admin.CreatedKey, error) {
		return a.CreateKey(ctx, admin.NewKey{Tenant: c.Tenant, User: c.User, Name: c.Name, Scopes: c.Scopes, LifeSeconds: int64(c.Expires.Seconds())})
	})
	if err != nil {
		return err
	}
	return out.Print(key, func(w io.Writer) { fmt.Fprintln(w, key.Key) })
}

type keyList struct{ tenant }

func (c *keyList) Run(ctx context.Context, out *cli.Out, w *world) error {
	list, err := ask(ctx, c.folder, w, func(a admin.Operations) (admin.KeyList, error) {
		return a.Keys(ctx, admin.TenantRef{Tenant: c.Tenant})
	})
	if err != nil {
		return err
	}
	return out.Print(list, table("ID\tSUBJECT\tNAME\tSCOPES\tSINCE\tSTATE", list.Keys, func(k admin.Key) []string {
		state := "good"
		switch {
		case k.Revoked != nil:
			state = "revoked"
		case k.Expires != nil:
			state = "until " + day(*k.Expires)
		}
		return []string{k.ID, k.Subject, k.Name, strings.Join(k.Scopes, ","), day(k.Created), state}
	}))
}

type keyRevoke struct {
	tenant
	ID string `arg:"" help:"Id of the key, from the list."`
}

func (c *keyRevoke) Run(ctx context.Context, out *cli.Out, w *world) error {
	return done(out, "revoked")(ask(ctx, c.folder, w, func(a admin.Operations) (admin.IDRef, error) {
		return a.RevokeKey(ctx, admin.IDRef{Tenant: c.Tenant, ID: c.ID})
	}))
}

type runnerCommands struct {
	List    runnerList    `cmd:"" help:"List the paired machines."`
	Approve runnerApprove `cmd:"" help:"Pair the machine that shows a code with a person."`
	Revoke  runnerRevoke  `cmd:"" help:"Cut a machine off."`
}

type runnerList struct{ tenant }

func (c *runnerList) Run(ctx context.Context, out *cli.Out, w *world) error {
	list, err := ask(ctx, c.folder, w, func(a admin.Operations) (admin.RunnerList, error) {
		return a.Runners(ctx, admin.TenantRef{Tenant: c.Tenant})
	})
	if err != nil {
		return err
	}
	return out.Print(list, table("ID\tNAME\tSUBJECT\tPLATFORM\tPRESENCE", list.Runners, func(r admin.Runner) []string {
		return []string{r.ID, r.Name, r.Subject, r.Platform, r.Presence}
	}))
}

type runnerApprove struct {
	tenant
	Code string `arg:"" help:"The code that runnerd pair shows."`
	User string `required:"" help:"Whose machine it is."`
}

func (c *runnerApprove) Run(ctx context.Context, out *cli.Out, w *world) error {
	got, err := ask(ctx, c.folder, w, func(a admin.Operations) (admin.Approved, error) {
		return a.ApproveRunner(ctx, admin.Approval{Tenant: c.Tenant, User: c.User, Code: c.Code})
	})
	if err != nil {
		return err
	}
	return out.Print(got, func(w io.Writer) {
		fmt.Fprintf(w, "%s is now a runner of %s (%s)\n", got.Name, got.Subject, got.RunnerID)
	})
}

type runnerRevoke struct {
	tenant
	ID string `arg:"" help:"Id of the runner, from the list."`
}

func (c *runnerRevoke) Run(ctx context.Context, out *cli.Out, w *world) error {
	return done(out, "revoked")(ask(ctx, c.folder, w, func(a admin.Operations) (admin.IDRef, error) {
		return a.RevokeRunner(ctx, admin.IDRef{Tenant: c.Tenant, ID: c.ID})
	}))
}

type workflowCommands struct {
	Import workflowImport `cmd:"" help:"Store definitions from files or folders of *.json."`
	List   workflowList   `cmd:"" help:"List the definitions."`
}

type workflowImport struct {
	tenant
	Paths []string `arg:"" type:"existingpath" help:"Files, or folders of *.json."`
}

func (c *workflowImport) Run(ctx context.Context, out *cli.Out, w *world) error {
	docs, err := definitions(c.Paths)
	if err != nil {
		return err
	}
	list, err := ask(ctx, c.folder, w, func(a admin.Operations) (admin.WorkflowList, error) {
		return importAll(ctx, a, c.Tenant, docs)
	})
	if err != nil {
		return err
	}
	return out.Print(list, func(w io.Writer) {
		for _, d := range list.Workflows {
			fmt.Fprintln(w, "imported", d.ID)
		}
	})
}

type workflowList struct{ tenant }

func (c *workflowList) Run(ctx context.Context, out *cli.Out, w *world) error {
	list, err := ask(ctx, c.folder, w, func(a admin.Operations) (admin.WorkflowList, error) {
		return a.Workflows(ctx, admin.TenantRef{Tenant: c.Tenant})
	})
	if err != nil {
		return err
	}
	return out.Print(list, table("ID\tNAME\tVERSION", list.Workflows, func(d admin.Workflow) []string { return []string{d.ID, d.Name, d.Version} }))
}

type statusCommand struct{ folder }

func (c *statusCommand) Run(ctx context.Context, out *cli.Out, w *world) error {
	s, err := ask(ctx, c.folder, w, func(a admin.Operations) (admin.Status, error) { return a.Status(ctx, admin.Nothing{}) })
	if err != nil {
		return err
	}
	return out.Print(s, func(w io.Writer) {
		state := "not serving"
		if s.Serving {
			state = "serving " + s.URL
		}
		fmt.Fprintf(w, "%s, version %s: %d people, %d runners, %d online\n", state, s.Version, s.Users, s.Runners, s.Online)
	})
}

// A definition is one file's text.
type definition struct {
	path string
	doc  []byte
}

// definitions reads files, and the *.json of folders that look like workflows.
func definitions(paths []string) ([]definition, error) {
	var docs []definition
	for _, path := range paths {
		files := []string{path}
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("read workflows: %w", err)
		}
		if info.IsDir() {
			if files, err = filepath.Glob(filepath.Join(path, "*.json")); err != nil {
				return nil, fmt.Errorf("read workflows: %w", err)
			}
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("read workflows: %w", err)
			}
			if _, err := engine.Parse(b); err != nil { // all are looked at before one is stored
				return nil, fmt.Errorf("%s is no workflow: %w", file, err)
			}
			docs = append(docs, definition{file, b})
		}
	}
	return docs, nil
}

func importAll(ctx context.Context, a admin.Operations, tenant string, docs []definition) (admin.WorkflowList, error) {
	list := admin.WorkflowList{Workflows: []admin.Workflow{}}
	for _, d := range docs {
		got, err := a.ImportWorkflow(ctx, admin.NewWorkflow{Tenant: tenant, Document: d.doc})
		if errors.Is(err, admin.ErrNotServing) {
			return list, err
		}
		if err != nil {
			return list, fmt.Errorf("import %s: %w", d.path, err)
		}
		list.Workflows = append(list.Workflows, got)
	}
	return list, nil
}

func done(out *cli.Out, what string) func(admin.IDRef, error) error {
	return func(ref admin.IDRef, err error) error {
		if err != nil {
			return err
		}
		return out.Print(ref, func(w io.Writer) { fmt.Fprintln(w, what, ref.ID) })
	}
}

// table prints rows under a heading, or says that there are none.
func table[T any](heading string, rows []T, cells func(T) []string) func(io.Writer) {
	return func(w io.Writer) {
		if len(rows) == 0 {
			fmt.Fprintln(w, "none")
			return
		}
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, heading)
		for _, r := range rows {
			fmt.Fprintln(t, strings.Join(cells(r), "\t"))
		}
		_ = t.Flush() // stdout is gone: nobody is left to tell
	}
}

func day(t time.Time) string { return t.Local().Format(time.DateOnly) }
