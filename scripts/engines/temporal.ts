import { mkdtempSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { goProgram } from './go.ts'
import { freePort, type KeptServer, keepServer } from './keeper.ts'

/** A development server of Temporal with a namespace `default`, whose state survives a restart. */
export interface TemporalServer extends KeptServer {
  /** `host:port` of its gRPC API. */
  readonly address: string
}

/** Newer versions have a replace directive, with which `go install` refuses them. */
export const temporalProgram = {
  name: 'temporal',
  package: 'github.com/temporalio/cli/cmd/temporal',
  version: 'v1.5.1',
}

/** Starts a server on a port of its own; `restart` brings back its state, as after a crash. */
export async function startTemporal(): Promise<TemporalServer> {
  const path = await goProgram(temporalProgram)
  const folder = mkdtempSync(join(tmpdir(), 'gantry-temporal-'))
  try {
    const port = await freePort()
    const kept = await keepServer({
      name: 'temporal',
      folder,
      lastSignal: 'KILL',
      command: [
        ...[path, 'server', 'start-dev', '--headless', '--ip', '127.0.0.1', '--port', String(port)],
        ...['--db-filename', join(folder, 'state.db'), '--log-level', 'error'],
      ],
      isReady: () => accepts(port),
    })
    return Object.assign(kept, { address: `127.0.0.1:${port}` })
  } catch (error) {
    rmSync(folder, { recursive: true, force: true })
    throw error
  }
}

/** The port is opened when the namespace is there. */
function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}
