import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { published } from './backend.fixture.ts'

export interface Everything extends AsyncDisposable {
  kill(): Promise<void>
}

/** The everything server over streamable HTTP, as a program that can be killed; resolves when it listens. */
export async function everythingAt(port: number): Promise<Everything> {
  const [node = '', ...args] = published('server-everything', 'streamableHttp')
  const program = spawn(node, args, {
    env: { ...process.env, PORT: String(port) },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const gone = once(program, 'exit')
  const listening = Promise.withResolvers<void>()
  program.stderr.on('data', (chunk: Buffer) => {
    if (chunk.includes('listening on port')) listening.resolve()
  })
  program.on('exit', () => listening.reject(new Error('The everything server did not start.')))
  const kill = async (): Promise<void> => {
    program.kill('SIGKILL')
    await gone
  }
  await listening.promise
  return { kill, [Symbol.asyncDispose]: kill }
}

/** A port of this machine that was free a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}
