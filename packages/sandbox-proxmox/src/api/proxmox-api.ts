import type { IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { setTimeout as pause } from 'node:timers/promises'
import { ToolError } from '@gantry/contract'
import { isObject, isText } from '@gantry/contract/internal/json'
import { parseJson } from '@gantry/core/internal/json/parse'
import { defaultJsonLimits } from '@gantry/core/internal/json/plain'
import { follow } from '@gantry/core/internal/resilience/abort'
import { type ApiTrust, apiAgent, FingerprintError } from './api-connection.ts'
import { apiError, printable, problemOf, problemOfAnswer } from './api-error.ts'

export interface ApiOptions extends ApiTrust {
  /** `https://pve.example:8006`. */
  readonly url: string
  /** `user@realm!name`. */
  readonly tokenId: string
  /** Reads the secret of the token; called with the first request. */
  readonly token: () => Promise<string>
  readonly node: string
}

/** Parameters of a request; a boolean is sent as 0 or 1. */
export type ApiParameters = { readonly [name: string]: string | number | boolean }

/**
 * The API of Proxmox VE for one node.
 * - Concurrency: any number of requests.
 * - Cancellation: every request takes a signal, and gives up by itself after 15 s; the wait for a task after two minutes.
 * - Errors: RUNTIME_UNAVAILABLE with reason, remedy and problem (`problemOf`).
 */
export interface ProxmoxApi {
  readonly host: string
  /** Sends a request and returns the `data` of the answer. `path` begins below `/api2/json`. */
  ask(method: Method, path: string, signal: AbortSignal, parameters?: ApiParameters): Promise<unknown>
  /** Sends a request to the node whose answer names a task, and waits until the task has ended well. */
  perform(method: Method, path: string, what: string, signal: AbortSignal, parameters?: ApiParameters): Promise<void>
  close(): void
}

interface Answer {
  readonly response: IncomingMessage
  readonly body: Buffer
}

type Method = 'GET' | 'POST' | 'PUT' | 'DELETE'

const requestMs = 15_000
const mostAnswerBytes = 8_388_608
const taskMs = 120_000
const firstLookMs = 25
const longestLookMs = 1_000
/** For how long the API may be gone while a task runs. */
const mostGoneMs = 20_000
const jsonLimits = { ...defaultJsonLimits, bytes: mostAnswerBytes, depth: 20, nodes: 500_000 }

export function createProxmoxApi(options: ApiOptions): ProxmoxApi {
  const { tokenId, node } = options
  const url = new URL(options.url)
  const reading = apiAgent(options, true)
  // A connection that was kept may be closed while a request is sent, and only one that reads can be sent again.
  const changing = apiAgent(options, false)
  let secret: Promise<string> | undefined
  const authorization = async (): Promise<string> => {
    secret ??= options.token()
    secret.catch(() => {
      secret = undefined
    })
    return `PVEAPIToken=${tokenId}=${await secret}`
  }
  const sendOnce = async (
    method: Method,
    path: string,
    given: AbortSignal,
    parameters: ApiParameters,
  ): Promise<Answer> => {
    const { signal, leave } = follow(given, AbortSignal.timeout(requestMs))
    try {
      const form = formOf(parameters)
      const inPath = method === 'GET' || method === 'DELETE'
      const headers = { authorization: await authorization(), accept: 'application/json' }
      const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
      const call = httpsRequest(
        {
          agent: method === 'GET' ? reading : changing,
          host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
          port: url.port === '' ? 443 : Number(url.port),
          method,
          path: `/api2/json${path}${inPath && form !== '' ? `?${form}` : ''}`,
          headers: inPath
            ? headers
            : {
                ...headers,
                'content-type': 'application/x-www-form-urlencoded',
                'content-length': Buffer.byteLength(form),
              },
          signal,
        },
        resolve,
      )
      call.on('error', reject)
      call.end(inPath ? undefined : form)
      const response = await promise
      return { response, body: await readAll(response) }
    } catch (cause) {
      given.throwIfAborted()
      if (ToolError.is(cause)) throw cause
      throw unreachable(url.host, cause)
    } finally {
      leave()
    }
  }
  const send: typeof sendOnce = async (method, path, signal, parameters) => {
    try {
      return await sendOnce(method, path, signal, parameters)
    } catch (error) {
      if (method !== 'GET' || problemOf(error) !== 'unreachable' || !wasCut(error)) throw error
      return sendOnce(method, path, signal, parameters)
    }
  }
  const ask = async (
    method: Method,
    path: string,
    signal: AbortSignal,
    parameters: ApiParameters = {},
  ): Promise<unknown> => {
    const { response, body } = await send(method, path, signal, parameters)
    const { statusCode: status = 0, statusMessage = '' } = response
    const document = documentOf(body)
    if (status === 200) {
      if (isObject(document) && 'data' in document) return document.data
      throw apiError('other', `${url.host} sent an answer that is not one of Proxmox VE.`)
    }
    const said = printable([messageOf(document), statusMessage].find((text) => text !== '') ?? '')
    const problem = problemOfAnswer(status, `${statusMessage} ${messageOf(document)}`)
    throw apiError(problem, `Proxmox VE at ${url.host} refused ${method} ${path}: ${status} ${said || 'no reason'}.`)
  }
  /** How the task ended; the API may be gone for a moment meanwhile. */
  const endOf = async (upid: string, signal: AbortSignal): Promise<string> => {
    let goneSince: number | undefined
    for (let waitMs = firstLookMs; ; waitMs = Math.min(waitMs * 1.5, longestLookMs)) {
      await pause(waitMs, undefined, { signal })
      try {
        const state = await ask('GET', `/nodes/${node}/tasks/${encodeURIComponent(upid)}/status`, signal)
        goneSince = undefined
        if (isObject(state) && state.status === 'stopped')
          return isText(state.exitstatus) ? state.exitstatus : 'no exit status'
      } catch (error) {
        signal.throwIfAborted()
        if (problemOf(error) !== 'unreachable') throw error
        goneSince ??= performance.now()
        if (performance.now() - goneSince > mostGoneMs) throw error
      }
    }
  }
  return {
    host: url.host,
    ask,
    async perform(method, path, what, given, parameters) {
      const upid = await ask(method, path, given, parameters)
      if (!isText(upid) || !isUpid(upid)) throw apiError('other', `${url.host} named no task for ${method} ${path}.`)
      const late = AbortSignal.timeout(taskMs)
      const { signal, leave } = follow(given, late)
      try {
        const end = await endOf(upid, signal)
        // Warnings are those of the storage or the template, which ran in spite of them.
        if (end === 'OK' || /^WARNINGS: \d+$/.test(end)) return
        throw apiError(problemOfAnswer(500, end), `Proxmox VE at ${url.host} could not ${what}: ${printable(end)}.`)
      } catch (error) {
        given.throwIfAborted()
        if (!late.aborted) throw error
        throw apiError('unreachable', `Proxmox VE at ${url.host} did not ${what} within ${taskMs / 1_000} s.`, {
          remedy: 'Look at the task log of the node.',
        })
      } finally {
        leave()
      }
    },
    close() {
      reading.destroy()
      changing.destroy()
    },
  }
}

/** Whether the connection ended before the answer. */
function wasCut(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined
  return cause instanceof Error && 'code' in cause && (cause.code === 'ECONNRESET' || cause.code === 'EPIPE')
}

/** `UPID:node:pid:start:time:type:id:user:`, which becomes part of a path. */
function isUpid(value: string): boolean {
  return (
    value.length < 512 && /^UPID:[\w.-]+:[0-9A-F]{8,}:[0-9A-F]{8,}:[0-9A-F]{8}:[\w-]+:[^:/\s]*:[^:/\s]+:$/i.test(value)
  )
}

function formOf(parameters: ApiParameters): string {
  const form = new URLSearchParams()
  for (const [name, value] of Object.entries(parameters)) {
    form.set(name, typeof value === 'boolean' ? (value ? '1' : '0') : String(value))
  }
  return form.toString()
}

async function readAll(response: IncomingMessage): Promise<Buffer> {
  const pieces: Buffer[] = []
  let bytes = 0
  for await (const piece of response) {
    bytes += piece.length
    if (bytes > mostAnswerBytes) {
      response.destroy()
      throw apiError('other', `Proxmox VE sent an answer of more than ${mostAnswerBytes} bytes.`)
    }
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}

function documentOf(body: Buffer): unknown {
  try {
    return parseJson(new TextDecoder('utf-8', { fatal: true }).decode(body), jsonLimits)
  } catch {
    return undefined
  }
}

/** `message`, and what is wrong with single parameters. */
function messageOf(document: unknown): string {
  if (!isObject(document)) return ''
  const { message, errors } = document
  const wrong = isObject(errors) ? Object.entries(errors).map(([name, text]) => `${name}: ${String(text)}`) : []
  return [...(isText(message) ? [message.trim()] : []), ...wrong].join('; ')
}

function unreachable(host: string, cause: unknown): Error {
  if (cause instanceof FingerprintError) {
    return apiError('other', `${host} showed another certificate than runtimes.proxmox.fingerprint. ${cause.message}`, {
      cause,
      remedy: 'Compare it with `pvenode cert info` on the node; nothing was sent to it.',
    })
  }
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
  if (/CERT|SELF_SIGNED|VERIFY|ALTNAME/.test(code)) {
    return apiError('other', `The certificate of ${host} cannot be verified (${code}).`, {
      cause,
      remedy:
        'Set runtimes.proxmox.fingerprint, or runtimes.proxmox.caFile to /etc/pve/pve-root-ca.pem of the cluster.',
    })
  }
  return apiError('unreachable', `Proxmox VE at ${host} cannot be reached${code === '' ? '' : ` (${code})`}.`, {
    cause,
  })
}
