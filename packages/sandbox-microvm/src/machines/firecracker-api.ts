import { request } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { ToolError } from '@gantry/contract'

/**
 * The API of one Firecracker, over its socket.
 * - Cancellation: the signal it was opened with ends every request.
 * - Errors: SANDBOX_INIT_FAILED with the request and the fault that Firecracker gave for it.
 */
export interface FirecrackerApi {
  put(path: string, body: ApiBody): Promise<void>
  patch(path: string, body: ApiBody): Promise<void>
}

export interface ApiBody {
  readonly [name: string]: string | number | boolean | ApiBody
}

interface ApiAnswer {
  readonly status: number
  readonly text: string
}

/** Its own answers are far below. */
const longestAnswer = 65_536
const longestFault = 300
/** The socket appears when the jail is made and Firecracker has begun. */
const pollMs = 5
const notThere: readonly string[] = ['ENOENT', 'ECONNREFUSED']

/** Waits until Firecracker answers at a socket; `signal` ends the wait. */
export async function openFirecrackerApi(socketPath: string, signal: AbortSignal): Promise<FirecrackerApi> {
  await untilThere(socketPath, signal)
  const change = async (method: 'PUT' | 'PATCH', path: string, body: ApiBody): Promise<void> => {
    const { status, text } = await ask(socketPath, method, path, JSON.stringify(body), signal)
    if (status >= 200 && status < 300) return
    throw new ToolError('SANDBOX_INIT_FAILED', `Firecracker refused ${method} ${path}: ${faultOf(text, status)}`)
  }
  return {
    put: (path, body) => change('PUT', path, body),
    patch: (path, body) => change('PATCH', path, body),
  }
}

async function untilThere(socketPath: string, signal: AbortSignal): Promise<void> {
  for (;;) {
    signal.throwIfAborted()
    try {
      await ask(socketPath, 'GET', '/', '', signal)
      return
    } catch (error) {
      signal.throwIfAborted()
      const { code = '' } = error as NodeJS.ErrnoException
      if (!notThere.includes(code)) throw error
    }
    await pause(pollMs, undefined, { signal })
  }
}

async function ask(
  socketPath: string,
  method: string,
  path: string,
  body: string,
  signal: AbortSignal,
): Promise<ApiAnswer> {
  const headers = body === '' ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
  const answered = Promise.withResolvers<ApiAnswer>()
  const sent = request({ socketPath, method, path, headers, agent: false, signal }, (response) => {
    let text = ''
    response.setEncoding('utf8')
    response.on('data', (piece: string) => {
      text += piece
      if (text.length > longestAnswer) response.destroy(new Error('The answer is too long.'))
    })
    response.on('error', answered.reject)
    response.on('end', () => answered.resolve({ status: response.statusCode ?? 0, text }))
  })
  sent.on('error', answered.reject)
  sent.end(body)
  try {
    return await answered.promise
  } catch (cause) {
    signal.throwIfAborted()
    if (notThere.includes((cause as NodeJS.ErrnoException).code ?? '')) throw cause
    throw new ToolError('SANDBOX_INIT_FAILED', `Firecracker did not answer ${method} ${path}.`, { cause })
  }
}

/** What Firecracker says is the host's own program's text, and yet it is cut, because it may name what a guest did. */
function faultOf(text: string, status: number): string {
  try {
    const value: unknown = JSON.parse(text)
    const fault = typeof value === 'object' && value !== null && 'fault_message' in value ? value.fault_message : ''
    if (typeof fault === 'string' && fault !== '') return fault.slice(0, longestFault)
  } catch {
    // Without JSON there is the status.
  }
  return `status ${status}, without a fault`
}
