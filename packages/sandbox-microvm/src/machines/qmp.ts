import { once } from 'node:events'
import { chmodSync, rmSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { ToolError } from '@gantry/contract'
import { onAbort } from '@gantry/core/internal/resilience/abort'

/** The control of a machine while it starts or is saved; a machine that runs programs has none. */
export interface Control {
  /** Rejects with SANDBOX_INIT_FAILED when QEMU refuses or has ended. */
  execute(command: string, args?: { readonly [name: string]: unknown }): Promise<unknown>
  close(): void
}

/** A socket to which one QEMU connects at its start. */
export interface ControlSocket {
  accepted(signal: AbortSignal): Promise<Control>
  /** Also closes the control; idempotent. */
  close(): void
}

/** Longest answer of QEMU; its own are far below. */
const longestLine = 1_048_576

/** Listens at a path in a folder that only this process and the uid of one QEMU can enter. */
export async function listenForControl(path: string): Promise<ControlSocket> {
  const server = createServer()
  const connected = Promise.withResolvers<Socket>()
  server.once('connection', (socket) => {
    server.close()
    rmSync(path, { force: true })
    connected.resolve(socket)
  })
  connected.promise.catch(() => undefined)
  await once(server.listen(path), 'listening')
  chmodSync(path, 0o666)
  let control: Control | undefined
  return {
    async accepted(signal) {
      const leave = onAbort(signal, () => connected.reject(signal.reason))
      try {
        control = await controlOf(await connected.promise, signal)
        return control
      } finally {
        leave()
      }
    },
    close() {
      connected.reject(ended())
      server.close()
      control?.close()
    },
  }
}

function ended(): ToolError {
  return new ToolError('SANDBOX_INIT_FAILED', 'The control of QEMU ended.')
}

async function controlOf(socket: Socket, signal: AbortSignal): Promise<Control> {
  const waiting: PromiseWithResolvers<unknown>[] = []
  const fail = (error: ToolError): void => {
    for (const one of waiting.splice(0)) one.reject(error)
    socket.destroy()
  }
  const leave = onAbort(signal, () => fail(ended()))
  socket.on('error', () => undefined)
  socket.on('close', () => {
    leave()
    fail(ended())
  })
  const lines = createInterface({ input: socket })
  // A reader of lines emits the errors of its stream again.
  lines.on('error', () => undefined)
  lines.on('line', (line) => {
    const answer = line.length > longestLine ? undefined : parsed(line)
    if (answer === undefined) fail(new ToolError('SANDBOX_INIT_FAILED', 'QEMU answered with no JSON.'))
    else if ('return' in answer) waiting.shift()?.resolve(answer.return)
    else if ('error' in answer) waiting.shift()?.reject(refused(answer.error))
  })
  const execute: Control['execute'] = (command, args) => {
    if (socket.destroyed) return Promise.reject(ended())
    const answer = Promise.withResolvers<unknown>()
    waiting.push(answer)
    socket.write(`${JSON.stringify({ execute: command, ...(args === undefined ? {} : { arguments: args }) })}\n`)
    return answer.promise
  }
  await execute('qmp_capabilities')
  return { execute, close: () => void socket.destroy() }
}

/** Memory that machines share is in no stream of a saved machine. */
export async function ignoreShared({ execute }: Control): Promise<void> {
  await execute('migrate-set-capabilities', { capabilities: [{ capability: 'x-ignore-shared', state: true }] })
}

function parsed(line: string): { readonly [name: string]: unknown } | undefined {
  try {
    const value: unknown = JSON.parse(line)
    return typeof value === 'object' && value !== null ? { ...value } : undefined
  } catch {
    return undefined
  }
}

function refused(error: unknown): ToolError {
  const said = JSON.stringify(error)?.slice(0, 300)
  return new ToolError('SANDBOX_INIT_FAILED', `QEMU refused a command: ${said}`)
}
