import { randomBytes } from 'node:crypto'
import { rmSync, writeFileSync } from 'node:fs'
import { createConnection } from 'node:net'
import { join } from 'node:path'
import type { Certificate } from './certificates.ts'
import { engineFolder } from './folder.ts'
import { freePort, type KeptServer, keepServer } from './keeper.ts'
import { hasProgram, installPackages } from './packages.ts'

/** A test Redis server on a loopback port, with a password and an append-only file. */
export interface RedisServer extends KeptServer {
  /** With the password. */
  readonly url: string
  readonly port: number
  readonly password: string
  /** Over TLS. */
  readonly secureUrl: string | undefined
}

export interface RedisOptions {
  /** `appendfsync`: every second, so that a crash can lose that much, or before each response. */
  readonly fsync?: 'everysec' | 'always'
  /** Also listens with TLS on a second port; with an authority, only for its client certificates. */
  readonly tls?: Certificate & { readonly clientCaFile?: string }
  /** A random one when absent. */
  readonly password?: string
  /** Additional lines of its configuration. */
  readonly more?: readonly string[]
  /** Runs as a sentinel. */
  readonly sentinel?: boolean
}

export async function startRedis(options: RedisOptions = {}): Promise<RedisServer> {
  const { fsync = 'everysec', tls, more = [], sentinel = false } = options
  if (!hasProgram('redis-server')) installPackages('redis-server')
  if (!hasProgram('redis-server')) throw new Error('Redis is not installed; apt-get install redis-server')
  const folder = engineFolder('redis')
  try {
    const password = options.password ?? randomBytes(12).toString('hex')
    const port = await freePort()
    const securePort = await freePort()
    const settings = join(folder, 'redis.conf')
    const secure = tls === undefined ? '' : tlsSettings(securePort, tls)
    const kind = sentinel ? '' : dataSettings(fsync)
    const lines = more.map((line) => `${line}\n`).join('')
    writeFileSync(settings, `${settingsOf(folder, port, password)}${kind}${secure}${lines}`, { mode: 0o600 })
    const kept = await keepServer({
      name: 'Redis',
      folder,
      lastSignal: 'KILL',
      command: ['redis-server', settings, ...(sentinel ? ['--sentinel'] : [])],
      isReady: () => answers(port, password),
    })
    const secureUrl = tls === undefined ? undefined : `rediss://:${password}@127.0.0.1:${securePort}`
    return Object.assign(kept, { url: `redis://:${password}@127.0.0.1:${port}`, port, password, secureUrl })
  } catch (error) {
    rmSync(folder, { recursive: true, force: true })
    throw error
  }
}

function settingsOf(folder: string, port: number, password: string): string {
  return `${['bind 127.0.0.1', `port ${port}`, `requirepass ${password}`, `dir ${folder}`].join('\n')}\n`
}

function dataSettings(fsync: string): string {
  return `${['save ""', 'appendonly yes', `appendfsync ${fsync}`, 'maxmemory-policy noeviction'].join('\n')}\n`
}

function tlsSettings(port: number, { certFile, keyFile, clientCaFile }: NonNullable<RedisOptions['tls']>): string {
  const files = [`tls-port ${port}`, `tls-cert-file ${certFile}`, `tls-key-file ${keyFile}`]
  const clients =
    clientCaFile === undefined ? ['tls-auth-clients no'] : [`tls-ca-cert-file ${clientCaFile}`, 'tls-auth-clients yes']
  return `${[...files, ...clients].join('\n')}\n`
}

/** While it loads its append-only file it accepts connections and answers LOADING. */
function answers(port: number, password: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection(port, '127.0.0.1')
    socket.setEncoding('latin1')
    let received = ''
    socket.on('data', (text: string) => {
      received += text
      if (received.split('\r\n').length > 2) socket.destroy()
    })
    socket.on('error', () => {})
    socket.on('close', () => resolve(received.includes('+PONG')))
    socket.write(`AUTH ${password}\r\nPING\r\n`)
  })
}
