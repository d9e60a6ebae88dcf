import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmodSync, chownSync, copyFileSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Certificate } from './certificates.ts'
import { engineFolder } from './folder.ts'
import { attempt, freePort, type KeptServer, keepServer } from './keeper.ts'
import { hasProgram, installPrograms, searchPath } from './packages.ts'

/** A test PostgreSQL server on a loopback port, with a password, durable as in production. */
export interface PostgresServer extends KeptServer {
  /** With the user and the password, for the database `postgres`. */
  readonly url: string
}

export interface PostgresOptions {
  /** More settings, such as `max_connections`. */
  readonly settings?: { readonly [name: string]: string | number }
  /** Accepts TLS connections too. */
  readonly tls?: Certificate
}

export async function startPostgres(options: PostgresOptions = {}): Promise<PostgresServer> {
  if (!hasProgram('postgres')) installPrograms()
  if (!hasProgram('postgres')) throw new Error('PostgreSQL is not installed; apt-get install postgresql')
  const owner = unprivileged()
  const folder = engineFolder('postgres')
  try {
    if (owner.uid !== undefined) chownSync(folder, owner.uid, owner.gid ?? owner.uid)
    const password = randomBytes(12).toString('hex')
    initialise(folder, password, owner)
    const port = await freePort()
    const tls = options.tls === undefined ? {} : placeCertificate(options.tls, folder, owner)
    const settings = {
      listen_addresses: '127.0.0.1',
      port,
      unix_socket_directories: folder,
      ...options.settings,
      ...tls,
    }
    const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
    const data = join(folder, 'data')
    const kept = await keepServer({
      name: 'PostgreSQL',
      folder,
      owner,
      lastSignal: 'QUIT',
      command: ['postgres', '-D', data, ...flags],
      isReady: (pid) => isReady(data, pid),
    })
    return Object.assign(kept, { url: `postgres://gantry:${password}@127.0.0.1:${port}/postgres` })
  } catch (error) {
    rmSync(folder, { recursive: true, force: true })
    throw error
  }
}

/** One server for a whole run; its tests find it by `env`. Undefined without PostgreSQL; those tests skip. */
export async function sharedPostgres(): Promise<{ readonly env: NodeJS.ProcessEnv; stop(): Promise<void> }> {
  if (!hasProgram('postgres')) return { env: {}, stop: async () => {} }
  const { url, stop } = await startPostgres({ settings: { max_connections: 200 } })
  return { env: { GANTRY_TEST_POSTGRES: url }, stop }
}

/** The server refuses a key that others can read. */
function placeCertificate({ certFile, keyFile }: Certificate, folder: string, owner: Owner): object {
  const files = { ssl_cert_file: join(folder, 'server.pem'), ssl_key_file: join(folder, 'server.key') }
  copyFileSync(certFile, files.ssl_cert_file)
  copyFileSync(keyFile, files.ssl_key_file)
  for (const file of Object.values(files)) {
    chmodSync(file, 0o600)
    if (owner.uid !== undefined) chownSync(file, owner.uid, owner.gid ?? owner.uid)
  }
  return { ssl: 'on', ...files }
}

interface Owner {
  readonly uid?: number
  readonly gid?: number
}

/** PostgreSQL refuses to run as root. */
function unprivileged(): Owner {
  if (process.getuid?.() !== 0) return {}
  const id = (flag: string): number => {
    const { status, stdout } = spawnSync('id', [flag, 'postgres'], { encoding: 'utf8' })
    return status === 0 ? Number(stdout) : 65_534
  }
  return { uid: id('-u'), gid: id('-g') }
}

function initialise(folder: string, password: string, owner: Owner): void {
  const secret = join(folder, 'password')
  writeFileSync(secret, password, { mode: 0o600 })
  if (owner.uid !== undefined) chownSync(secret, owner.uid, owner.gid ?? owner.uid)
  const flags = ['-D', join(folder, 'data'), '-U', 'gantry', `--pwfile=${secret}`, '-A', 'scram-sha-256']
  const rest = ['--no-sync', '-E', 'UTF8', '--locale=C.UTF-8']
  const made = spawnSync('initdb', [...flags, ...rest], {
    ...owner,
    cwd: folder,
    env: { PATH: searchPath() },
    encoding: 'utf8',
  })
  if (made.status !== 0) throw new Error(`initdb failed: ${made.error?.message ?? made.stderr}`)
}

/** `postmaster.pid`, as `pg_ctl` reads it: the eighth line is the status, the first the process id. */
function isReady(data: string, pid: number): boolean {
  const lines = attempt(() => readFileSync(join(data, 'postmaster.pid'), 'utf8'))?.split('\n')
  return lines?.[0] === String(pid) && lines[7]?.trim() === 'ready'
}
