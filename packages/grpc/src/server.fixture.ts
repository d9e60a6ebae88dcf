import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  type Metadata,
  Server,
  ServerCredentials,
  Metadata as ServerMetadata,
  type ServerUnaryCall,
  type ServerWritableStream,
  type ServiceDefinition,
  type sendUnaryData,
} from '@grpc/grpc-js'
import { loadSync } from '@grpc/proto-loader'
import { ReflectionService } from '@grpc/reflection'

export const samplePath = join(import.meta.dirname, 'sample.proto')
export const sampleService = 'gantry.sample.v1.Calculator'

type Message = Record<string, unknown>
type Unary = (call: ServerUnaryCall<Message, Message>, done: sendUnaryData<Message>) => void

/** A real gRPC server of the sample service, and what it has seen. */
export interface SampleServer {
  readonly port: number
  /** Metadata of every call, in order. */
  readonly seen: Metadata[]
  /** Messages that were given to Echo. */
  readonly echoed: Message[]
  /** Resolves when Wait or Count is cancelled. */
  readonly cancelled: Promise<void>
  /** Resolves when Wait has begun. */
  readonly waiting: Promise<void>
  /** How many messages Count has written. */
  counted(): number
  close(): void
}

export interface SampleOptions {
  readonly reflection?: boolean
  readonly tls?: Certificate
  readonly port?: number
}

export async function startSample({ reflection = false, tls, port = 0 }: SampleOptions = {}): Promise<SampleServer> {
  const definition = loadSync(samplePath, { keepCase: true, longs: String, enums: String, oneofs: true })
  const server = new Server()
  const seen: Metadata[] = []
  const echoed: Message[] = []
  const cancelled = Promise.withResolvers<void>()
  const waiting = Promise.withResolvers<void>()
  let counted = 0
  const noted =
    (unary: Unary): Unary =>
    (call, done) => {
      seen.push(call.metadata)
      unary(call, done)
    }
  server.addService(definition[sampleService] as ServiceDefinition, {
    Add: noted(({ request }, done) => {
      const { a, b } = request
      if (!('_a' in request) || !('_b' in request)) return done({ code: 3, details: 'both numbers are needed' })
      done(null, { result: Number(a) + Number(b) })
    }),
    Fail: noted((_call, done) => done({ code: 2, details: 'it broke' })),
    Wait: noted((call) => {
      call.on('cancelled', () => cancelled.resolve())
      waiting.resolve()
    }),
    Echo: noted(({ request }, done) => {
      echoed.push(request)
      done(null, request)
    }),
    End: noted(({ request }, done) => {
      const metadata = new ServerMetadata()
      const details = request.details as Buffer | undefined
      if (details !== undefined) metadata.set('grpc-status-details-bin', details)
      done({ code: Number(request.code), details: String(request.message), metadata })
    }),
    Shout: noted(({ request }, done) => done(null, { value: String(request.value).toUpperCase() })),
    Count: (call: ServerWritableStream<{ to: number; padding: number }, Message>) => {
      call.on('cancelled', () => cancelled.resolve())
      const { to, padding } = call.request
      const write = (): void => {
        while (counted < to && !call.cancelled) {
          counted += 1
          if (!call.write({ number: counted, padding: 'x'.repeat(padding) })) return void call.once('drain', write)
        }
        call.end()
      }
      write()
    },
    Sum: noted((_call, done) => done(null, { result: 0 })),
    Chat: (call: { end(): void }) => call.end(),
  })
  if (reflection) new ReflectionService(definition).addToServer(server)
  const credentials =
    tls === undefined
      ? ServerCredentials.createInsecure()
      : ServerCredentials.createSsl(
          tls.caForClients,
          [{ cert_chain: tls.cert, private_key: tls.key }],
          tls.caForClients !== null,
        )
  const bound = await new Promise<number>((resolve, reject) => {
    server.bindAsync(`127.0.0.1:${port}`, credentials, (error, number) => (error ? reject(error) : resolve(number)))
  })
  return {
    port: bound,
    seen,
    echoed,
    cancelled: cancelled.promise,
    waiting: waiting.promise,
    counted: () => counted,
    close: () => server.forceShutdown(),
  }
}

export interface Certificate {
  readonly cert: Buffer
  readonly key: Buffer
  /** Set when clients must show a certificate that this one has signed. */
  readonly caForClients: Buffer | null
}

/** A certificate for one name that signs itself, made for this run only. */
export function makeCertificate(name: string): Certificate {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-grpc-'))
  try {
    const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
    const subject = ['-subj', `/CN=${name}`, '-addext', `subjectAltName=DNS:${name}`]
    const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2']
    execFileSync('openssl', ['req', '-x509', ...curve, ...subject, '-keyout', key, '-out', cert], { stdio: 'ignore' })
    return { cert: readFileSync(cert), key: readFileSync(key), caForClients: null }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
