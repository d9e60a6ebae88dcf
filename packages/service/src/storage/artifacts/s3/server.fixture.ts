import { randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage, type RequestListener, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, type TestContext } from 'node:test'
import { S3 } from '@aws-sdk/client-s3'
import { type S3Server, startS3 } from '../../../../../../scripts/engines/s3.ts'
import { startToxiproxy, type Toxiproxy } from '../../../../../../scripts/engines/toxiproxy.ts'
import type { S3Options } from '../../../config/broker-settings.ts'

/** A prefix in the bucket of a real server that only one test uses, with direct access to it. */
export interface OwnPlace {
  readonly server: S3Server
  readonly options: S3Options & { readonly prefix: string }
  /** A plain S3 client. */
  readonly raw: S3
  keyOf(digest: string): string
  /** The folder where the server stores the objects of this prefix. */
  readonly files: string
  /** The number of objects and of incomplete uploads. */
  count(): Promise<number>
}

const shared: { s3?: Promise<S3Server>; toxiproxy?: Promise<Toxiproxy> } = {}

/** One server for all tests of a file; tests are skipped when it cannot be started, unless engines are required. */
async function engine<T>(t: TestContext, start: Promise<T>): Promise<T> {
  return start.catch((error: Error) => {
    if (process.env.GANTRY_ENGINES !== 'required') t.skip(error.message)
    throw error
  })
}

export function s3Server(t: TestContext): Promise<S3Server> {
  shared.s3 ??= startS3()
  return engine(t, shared.s3)
}

export function toxiproxy(t: TestContext): Promise<Toxiproxy> {
  shared.toxiproxy ??= startToxiproxy()
  return engine(t, shared.toxiproxy)
}

after(async () => {
  for (const started of [shared.s3, shared.toxiproxy])
    await started?.then((server) => server.stop()).catch(() => undefined)
})

export async function ownPlace(t: TestContext, timeoutMs = 20_000): Promise<OwnPlace> {
  const server = await s3Server(t)
  const { endpoint, region, bucket, accessKeyId, secretAccessKey } = server
  const prefix = `test-${randomBytes(6).toString('hex')}`
  const raw = new S3({ endpoint, region, forcePathStyle: true, credentials: { accessKeyId, secretAccessKey } })
  t.after(() => raw.destroy())
  return {
    server,
    raw,
    options: { endpoint, region, bucket, accessKeyId, secretAccessKey, prefix, forcePathStyle: true, timeoutMs },
    keyOf: (digest) => `${prefix}/${digest.slice(7, 9)}/${digest.slice(7)}`,
    files: join(server.folder, 'data', bucket, prefix),
    async count() {
      const objects = await raw.listObjectsV2({ Bucket: bucket, Prefix: prefix })
      const uploads = await raw.listMultipartUploads({ Bucket: bucket, Prefix: prefix })
      return (objects.Contents ?? []).length + (uploads.Uploads ?? []).length
    },
  }
}

/** A scripted HTTP server on loopback, closed with the test. */
export async function played(t: TestContext, listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** Forwards a request to the real server, with another body when one is given. */
export function passOn(port: number, incoming: IncomingMessage, outgoing: ServerResponse, body?: Uint8Array): void {
  const { method, url: path, headers } = incoming
  const onward = request({ port, method, path, headers }, (answer) => {
    outgoing.writeHead(answer.statusCode ?? 500, answer.headers)
    answer.pipe(outgoing)
  })
  onward.on('error', () => outgoing.destroy())
  if (body === undefined) incoming.pipe(onward)
  else onward.end(body)
}

/** The options for a scripted server. */
export function optionsFor(endpoint: string, timeoutMs: number): S3Options {
  const keys = { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'very-secret-key', sessionToken: 'very-secret-token' }
  return { endpoint, region: 'us-east-1', bucket: 'bucket', ...keys, forcePathStyle: true, timeoutMs }
}

export async function* piecesOf(content: Uint8Array, bytes: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < content.length; at += bytes) yield content.subarray(at, at + bytes)
}
