import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { cleanUpOf } from './docker.ts'
import { type KeptServer, keepServer } from './keeper.ts'

/** A containerd of our own on a socket in its folder; the namespace is the place of its containers among control groups. */
export interface ContainerdServer extends KeptServer {
  readonly socket: string
  readonly namespace: string
}

/** Starts containerd without images. Rejects with what it printed when it does not start. */
export async function startContainerd(): Promise<ContainerdServer> {
  // Not in memory: overlayfs keeps attributes that tmpfs does not have on every kernel.
  const folder = mkdtempSync(join(tmpdir(), 'gantry-containerd-'))
  try {
    const [socket, config] = [join(folder, 'containerd.sock'), join(folder, 'config.toml')]
    writeFileSync(config, configOf(folder, socket))
    const kept = await keepServer({
      name: 'containerd',
      folder,
      lastSignal: 'TERM',
      cleanUp: cleanUpOf(basename(folder)),
      command: ['containerd', '--config', config],
      isReady: () => answers(socket),
    })
    return Object.assign(kept, { socket, namespace: basename(folder) })
  } catch (error) {
    rmSync(folder, { recursive: true, force: true })
    throw error
  }
}

/** Without the plugins for Kubernetes, and without moving in the order in which the kernel kills, for which tests lack the right. */
function configOf(folder: string, socket: string): string {
  return `version = 2
root = ${JSON.stringify(join(folder, 'root'))}
state = ${JSON.stringify(join(folder, 'state'))}
oom_score = 0
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs", "io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]
[grpc]
  address = ${JSON.stringify(socket)}
[ttrpc]
  address = ${JSON.stringify(`${socket}.ttrpc`)}
`
}

function answers(socket: string): Promise<boolean> {
  return new Promise((resolve) => {
    const connection = connect(socket, () => {
      connection.destroy()
      // Plugins register one after the other once the socket is there.
      resolve(spawnSync('ctr', ['--address', socket, 'version'], { stdio: 'ignore', timeout: 5_000 }).status === 0)
    })
    connection.on('error', () => resolve(false))
  })
}
