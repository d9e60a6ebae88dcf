import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** An engine that answers with fixed texts, for what no real engine here does. */
export interface FakeDocker {
  readonly socket: string
  /** The paths that it was asked for, with their API version. */
  readonly paths: readonly string[]
  /** Sends an event to every stream of events. */
  tell(event: object): void
  /** Ends every stream of events, as an engine that is restarted does. */
  hangUp(): void
  stop(): void
}

export interface FakeDockerOptions {
  /** The least and the newest version of its API. */
  readonly versions?: readonly [least: string, newest: string]
  /** What replaces the answers of an ordinary engine, by path without version and query. */
  readonly answers?: { readonly [path: string]: { readonly status: number; readonly body: unknown } }
}

export const ordinaryInfo = {
  ServerVersion: '20.10.24',
  Runtimes: { runc: { path: 'runc' } },
  DefaultRuntime: 'runc',
  OSType: 'linux',
  CgroupVersion: '2',
  KernelVersion: '6.1.0',
  MemoryLimit: true,
  SwapLimit: true,
  PidsLimit: true,
  CpuCfsQuota: true,
}

export async function startFakeDocker({
  versions: [least, newest] = ['1.12', '1.41'],
  answers = {},
}: FakeDockerOptions = {}): Promise<FakeDocker> {
  const paths: string[] = []
  const streams = new Set<ServerResponse>()
  const components = [{ Name: 'runc', Version: '1.3.6' }]
  const all: NonNullable<FakeDockerOptions['answers']> = {
    '/info': { status: 200, body: ordinaryInfo },
    '/version': { status: 200, body: { ApiVersion: newest, MinAPIVersion: least, Components: components } },
    ...answers,
  }
  const numberOf = (version: string): number => Number(version.split('.')[1])
  const answer = ({ url = '' }: IncomingMessage, response: ServerResponse): void => {
    paths.push(url)
    const [, version, path = ''] = /^(?:\/v([\d.]+))?(\/[^?]*)/.exec(url) ?? []
    const send = (status: number, body: unknown): void => void response.writeHead(status).end(JSON.stringify(body))
    const refuse = (why: string): void => send(400, { message: `client version ${version} is too ${why}` })
    if (version !== undefined && numberOf(version) < numberOf(least)) {
      refuse(`old. Minimum supported API version is ${least}`)
    } else if (version !== undefined && numberOf(version) > numberOf(newest)) {
      refuse(`new. Maximum supported API version is ${newest}`)
    } else if (path === '/events') {
      streams.add(response)
      response.writeHead(200).flushHeaders()
    } else {
      const { status, body } = all[path] ?? { status: 404, body: { message: `No such thing: ${path}` } }
      send(status, body)
    }
  }
  const folder = mkdtempSync(join(tmpdir(), 'gantry-fake-'))
  const socket = join(folder, 'docker.sock')
  const server = createServer(answer)
  await once(server.listen(socket), 'listening')
  return {
    socket,
    paths,
    tell(event) {
      for (const stream of streams) stream.write(`${JSON.stringify(event)}\n`)
    },
    hangUp() {
      for (const stream of streams) stream.end()
      streams.clear()
    },
    stop() {
      server.closeAllConnections()
      server.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
