import { randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { get } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Certificate } from './certificates.ts'
import { goProgram } from './go.ts'
import { freePort, type KeptServer, keepServer } from './keeper.ts'

/** An S3 server of our own (versitygw over a folder), on a loopback port, for requests in path style. */
export interface S3Server extends KeptServer {
  readonly port: number
  readonly endpoint: string
  readonly region: string
  /** One that exists and is empty. */
  readonly bucket: string
  readonly accessKeyId: string
  readonly secretAccessKey: string
}

/** Built once for the user, which takes minutes; a run of tests does it beforehand. */
export const s3Program = {
  name: 'versitygw',
  package: 'github.com/versity/versitygw/cmd/versitygw',
  version: 'v1.8.0',
}

export interface S3ServerOptions {
  /** Speaks TLS; `ca` is whom to trust for it. */
  readonly tls?: Certificate & { readonly ca: string }
}

export async function startS3({ tls }: S3ServerOptions = {}): Promise<S3Server> {
  const path = await goProgram(s3Program)
  const folder = mkdtempSync(join(tmpdir(), 'gantry-s3-'))
  try {
    const keys = { accessKeyId: randomBytes(8).toString('hex'), secretAccessKey: randomBytes(20).toString('hex') }
    const [port, region, bucket] = [await freePort(), 'us-east-1', 'gantry']
    const data = join(folder, 'data')
    // A folder in its folder is a bucket, which belongs to the root account.
    mkdirSync(join(data, bucket), { recursive: true })
    writeFileSync(join(folder, 'keys'), keysFile(keys), { mode: 0o600 })
    const endpoint = `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`
    const kept = await keepServer({
      name: 'versitygw',
      folder,
      lastSignal: 'KILL',
      command: [
        ...withKeys,
        path,
        '--port',
        `127.0.0.1:${port}`,
        '--region',
        region,
        '--health',
        '/health',
        ...(tls === undefined ? [] : ['--cert', tls.certFile, '--key', tls.keyFile]),
        'posix',
        data,
      ],
      isReady: () => (tls === undefined ? answers(endpoint) : answersSecurely(endpoint, tls.ca)),
    })
    return Object.assign(kept, { port, endpoint, region, bucket, ...keys })
  } catch (error) {
    rmSync(folder, { recursive: true, force: true })
    throw error
  }
}

/** The keys come from a file of ours, because every user of the machine can read a command line. */
const withKeys = ['sh', '-c', '. ./keys; exec "$0" "$@"']

function keysFile(keys: { readonly accessKeyId: string; readonly secretAccessKey: string }): string {
  return `export ROOT_ACCESS_KEY=${keys.accessKeyId} ROOT_SECRET_KEY=${keys.secretAccessKey}\n`
}

function answers(endpoint: string): Promise<boolean> {
  return fetch(`${endpoint}/health`).then(
    ({ ok }) => ok,
    () => false,
  )
}

function answersSecurely(endpoint: string, ca: string): Promise<boolean> {
  return new Promise((resolve) => {
    const options = { ca, agent: false, checkServerIdentity: () => undefined }
    get(`${endpoint}/health`, options, (answer) => {
      answer.resume()
      resolve(answer.statusCode === 200)
    }).on('error', () => resolve(false))
  })
}
