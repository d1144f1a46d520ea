package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/plexsphere/leader-exporter/internal/child"
	"github.com/plexsphere/leader-exporter/internal/freeport"
)

// deployment is replicas that elect one leader, and the exporter that watches their lock.
type deployment struct {
	workshop
	name    string // value of the label deployment, and the exporter's name for the server
	opts    upOptions
	dsn     string // of the replicas
	watched string // the exporter's DSN

	replicas     []*replicaProcess
	exporter     *child.Child
	exporterAddr string
}

// replicaProcess is one process that takes part.
type replicaProcess struct {
	name, address string
	process       *child.Child
	killed        bool // on purpose
}

// newDeployment chooses the addresses of all processes and starts none.
func newDeployment(folder, name, dsn string, opts upOptions) (*deployment, error) {
	d := &deployment{workshop: workshop{folder}, name: name, opts: opts, dsn: dsn, watched: dsn}
	var err error
	for i := range opts.replicas {
		r := &replicaProcess{name: fmt.Sprintf("plexsphere-%d", i+1)}
		if r.address, err = freeport.Address(); err != nil {
			return nil, err
		}
		d.replicas = append(d.replicas, r)
	}
	d.exporterAddr, err = freeport.Address()
	return d, err
}

// startAll starts the replicas and the exporter.
func (d *deployment) startAll() error {
	for _, r := range d.replicas {
		if err := d.startReplica(r); err != nil {
			return err
		}
	}
	return d.startExporter()
}

// startReplica starts the replica's process, the first time or again, with more flags.
func (d *deployment) startReplica(r *replicaProcess, flags ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	r.killed = false
	args := []string{
		"replica", "--name=" + r.name, "--web.listen-address=" + r.address, "--check-interval=" + d.opts.checkInterval.String(),
		"--loop-interval=" + d.opts.loopInterval.String(),
	}
	r.process, err = d.start(r.name, self, []string{"PLEXSPHERE_DSN=" + d.dsn}, append(args, flags...)...)
	return err
}

// exporterConfig names the server as the deployment, and says who may hold the lock.
const exporterConfig = `poll_interval: 200ms
targets:
  - name: %q
    dsn: ${PLEXSPHERE_DSN}
    locks:
      - name: background-leader
        key: 1886156915/1
        expected_application_names: ["plexsphere-*"]
`

// startExporter starts the exporter's process, the first time or again.
func (d *deployment) startExporter() error {
	config, err := d.write("leader-exporter.yml", fmt.Appendf(nil, exporterConfig, d.name))
	if err != nil {
		return err
	}
	d.exporter, err = d.start("leader-exporter", d.opts.exporter, []string{"PLEXSPHERE_DSN=" + d.watched},
		"serve", "--config.file="+config, "--web.listen-address="+d.exporterAddr)
	return err
}

// fault returns an error when a part has ended that was not killed on purpose.
func (d *deployment) fault() error {
	problems := []error{d.ended("leader-exporter", d.exporter)}
	for _, r := range d.replicas {
		if !r.killed {
			problems = append(problems, d.ended(r.name, r.process))
		}
	}
	return errors.Join(problems...)
}

// processes are all that were started.
func (d *deployment) processes() []*child.Child {
	processes := []*child.Child{d.exporter}
	for _, r := range d.replicas {
		processes = append(processes, r.process)
	}
	return processes
}
