import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { type KeptServer, keepServer } from './keeper.ts'
import { hasProgram, installPackages } from './packages.ts'

/** A Docker engine of our own on a socket in its folder, with gVisor as the runtime `runsc`; it has no network. */
export interface DockerServer extends KeptServer {
  readonly socket: string
}

/** A program of Debian that sandboxes in containers need. */
const programs = [
  { name: 'dockerd', package: 'docker.io', use: 'the runtime docker' },
  { name: 'containerd', package: 'containerd', use: 'the runtime containerd' },
  { name: 'runsc', package: 'runsc', use: 'the runtime gvisor' },
]

/** Installs what is missing where we may, and says what is missing all the same, with the reason. */
export function missingDocker(): readonly string[] {
  installPackages(...programs.filter(({ name }) => !hasProgram(name)).map((program) => program.package))
  const missing = programs
    .filter(({ name }) => !hasProgram(name))
    .map(({ name, package: from, use }) => `${name} (${use}): not installed; apt-get install ${from}`)
  return process.getuid?.() === 0 ? missing : [...missing, 'dockerd (the runtime docker): it needs root']
}

/** Starts an engine without images. Rejects with what it printed when it does not start. */
export async function startDocker(): Promise<DockerServer> {
  // Not in memory: overlay2 keeps attributes that tmpfs does not have on every kernel.
  const folder = mkdtempSync(join(tmpdir(), 'gantry-docker-'))
  try {
    const [socket, config] = [join(folder, 'docker.sock'), join(folder, 'daemon.json')]
    const sealed = ['--platform=ptrace', '--network=none']
    const [path, runc] = [pathOf('runsc'), pathOf('runc')]
    const runtimes = {
      // The socket of the egress proxy is one of the host's, which gVisor opens only when it is allowed to.
      runsc: { path, runtimeArgs: [...sealed, '--host-uds=open'] },
      'runsc-sealed': { path, runtimeArgs: sealed },
      // Programs that say something untrue about themselves, for the tests of what is believed.
      'runsc-old': {
        path: disguised(folder, 'runsc-old', 'runsc version release-20200115.0', `${path} ${sealed.join(' ')}`),
      },
      'runsc-wrapped': { path: disguised(folder, 'runsc-wrapped', undefined, `${path} ${sealed.join(' ')}`) },
      'runsc-is-runc': { path: disguised(folder, 'runsc-is-runc', undefined, runc) },
      'runsc-claimed': { path: disguised(folder, 'runsc-claimed', 'runsc version release-20260905.0', runc) },
      'runc-old': { path: disguised(folder, 'runc-old', 'runc version 1.1.4', runc) },
      'runc-unknown': { path: disguised(folder, 'runc-unknown', 'something else', runc) },
    }
    writeFileSync(config, JSON.stringify({ runtimes }))
    mkdirSync(join(folder, 'temporary'))
    const kept = await keepServer({
      name: 'Docker',
      folder,
      lastSignal: 'TERM',
      cleanUp: cleanUpOf(basename(folder)),
      command: [
        'env',
        `DOCKER_TMPDIR=${join(folder, 'temporary')}`,
        'dockerd',
        ...['--config-file', config, '-H', `unix://${socket}`],
        ...['--data-root', join(folder, 'data'), '--exec-root', join(folder, 'exec'), '--pidfile', join(folder, 'pid')],
        ...['--iptables=false', '--ip6tables=false', '--bridge=none', '--storage-driver=overlay2'],
        // Its own place among the control groups, so that everything in it can be found at the end.
        ...['--oom-score-adjust', '0', '--shutdown-timeout', '3', '--cgroup-parent', `/${basename(folder)}`],
      ],
      isReady: () => answers(socket),
    })
    return Object.assign(kept, { socket })
  } catch (error) {
    rmSync(folder, { recursive: true, force: true })
    throw error
  }
}

/** A script that stands for an OCI runtime, says this as its version where it says something, and notes what it was started for. */
function disguised(folder: string, name: string, version: string | undefined, command: string): string {
  const path = join(folder, name)
  const said = version === undefined ? '' : `[ "$1" = --version ] && { echo '${version}'; exit 0; }\n`
  writeFileSync(path, `#!/bin/sh\necho "$@" >>'${path}.log'\n${said}exec ${command} "$@"\n`, { mode: 0o755 })
  return path
}

function pathOf(program: string): string {
  return spawnSync('sh', ['-c', `command -v ${program}`], { encoding: 'utf8' }).stdout.trim()
}

/**
 * What an engine that was killed leaves: containers, its containerd and shims, their sockets, mounts and control groups.
 * All of it is found by the name of the folder; the keeper has that among its arguments too.
 */
export function cleanUpOf(group: string): string {
  return `
find "$folder" -maxdepth 7 -path '*/io.containerd.runtime.v2.task/*/address' -exec cat {} + 2>/dev/null >"$folder/addresses"
for turn in 1 2 3; do
  for file in $(grep -lsF "$folder/" /proc/[0-9]*/cmdline); do
    one=\${file#/proc/}; one=\${one%/cmdline}
    [ "$one" = $$ ] || kill -9 "$one"
  done
  find /sys/fs/cgroup -path '*/${group}/*' -name cgroup.procs -exec cat {} + 2>/dev/null | sort -u | xargs -r kill -9
  sleep 0.1
done
sed 's,unix://,,g; s,/run,\\n/run,g' "$folder/addresses" | grep '^/run/containerd/s/' | xargs -r rm -f
cut -d' ' -f2 /proc/mounts | grep -F "$folder/" | sort -r | xargs -r -n1 umount -l
find /sys/fs/cgroup -depth -type d -path '*/${group}*' -exec rmdir {} + 2>/dev/null
`
}

function answers(socket: string): Promise<boolean> {
  return new Promise((resolve) => {
    const ask = request({ socketPath: socket, path: '/_ping', agent: false }, (answer) => {
      answer.resume()
      resolve(answer.statusCode === 200)
    })
    ask.on('error', () => resolve(false))
    ask.end()
  })
}
