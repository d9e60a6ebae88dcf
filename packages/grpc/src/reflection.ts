import { ToolError } from '@gantry/contract'
import type { Channel } from './channel.ts'
import { isStatus } from './status.ts'
import { bytesField, type Parts, readParts } from './wire.ts'

const mostServices = 500
const mostFiles = 1_000
const mostBytes = 8_388_608
const mostMs = 20_000
const protocols = ['grpc.reflection.v1', 'grpc.reflection.v1alpha']
const request = { byFile: 3, bySymbol: 4, listServices: 7 } as const
const answer = { files: 4, services: 6, error: 7 } as const

/** Asks one thing of a reflection service. */
type Ask = (field: number, text: string) => Promise<Parts>

/**
 * Asks a server for the descriptors of everything it serves, and of all that those refer to. What comes is bounded in
 * number, bytes and time, whatever the server sends: LIMIT_EXCEEDED. `metadata` goes along as with any call.
 */
export async function reflect(
  channel: Channel,
  metadata: { readonly [name: string]: string },
  signal: AbortSignal,
): Promise<readonly Buffer[]> {
  const within = AbortSignal.any([signal, AbortSignal.timeout(mostMs)])
  const ask = asking(channel, metadata, within)
  try {
    return await collect(ask)
  } catch (error) {
    if (signal.aborted || !within.aborted) throw error
    throw excess(`took more than ${mostMs / 1_000} s`)
  }
}

async function collect(ask: Ask): Promise<readonly Buffer[]> {
  const files = new Map<string, Buffer>()
  const wanted: string[] = []
  for (const service of await servicesOf(ask)) {
    take(await ask(request.bySymbol, service), files, wanted)
  }
  for (let name = wanted.pop(); name !== undefined; name = wanted.pop()) {
    if (files.has(name)) continue
    take(await ask(request.byFile, name), files, wanted)
    if (!files.has(name)) throw new ToolError('BACKEND_FAILED', 'Server reflection did not give a file that it names.')
  }
  return [...files.values()]
}

async function servicesOf(ask: Ask): Promise<readonly string[]> {
  const list = (await ask(request.listServices, '*')).all(answer.services).at(-1)
  const services =
    list === undefined
      ? []
      : readParts(list)
          .all(1)
          .map((service) => readParts(service).text(1))
  if (services.length > mostServices) throw excess(`names more than ${mostServices} services`)
  return services
}

/** Keeps the files of an answer, and notes which others they import. */
function take(parts: Parts, files: Map<string, Buffer>, wanted: string[]): void {
  const given = parts.all(answer.files).flatMap((bytes) => readParts(bytes).all(1))
  for (const bytes of given) {
    const file = readParts(bytes)
    if (files.has(file.text(1))) continue
    files.set(file.text(1), bytes)
    wanted.push(...file.all(3).map(String))
    if (files.size > mostFiles || wanted.length > 100 * mostFiles) throw excess(`brings more than ${mostFiles} files`)
  }
}

/** Each question is a stream of its own with one message; a server that lacks the newer protocol is asked by the older. */
function asking(channel: Channel, metadata: { readonly [name: string]: string }, signal: AbortSignal): Ask {
  let [protocol, ...older] = protocols
  let bytes = 0
  const ask: Ask = async (field, text) => {
    const method = `${protocol}.ServerReflection/ServerReflectionInfo`
    try {
      const message = bytesField(field, text)
      let first: Buffer | undefined
      // Read to its end, because a server takes many streams that are cancelled for an attack.
      for await (const part of channel.call({ method, message, metadata, maxBytes: mostBytes, signal })) {
        bytes += part.length
        if (bytes > mostBytes) throw excess(`sends more than ${mostBytes} bytes`)
        first ??= part
      }
      if (first !== undefined) return checked(readParts(first))
    } catch (error) {
      const next = older.shift()
      if (next === undefined || !isStatus(error, 'UNIMPLEMENTED')) throw error
      protocol = next
      return ask(field, text)
    }
    throw new ToolError('BACKEND_FAILED', 'Server reflection gave no answer.')
  }
  return ask
}

function checked(parts: Parts): Parts {
  const error = parts.all(answer.error).at(-1)
  if (error === undefined) return parts
  const text = readParts(error).text(2).slice(0, 1_000)
  throw new ToolError('BACKEND_FAILED', text === '' ? 'Server reflection failed.' : text)
}

function excess(what: string): ToolError {
  return new ToolError('LIMIT_EXCEEDED', `Server reflection ${what}; use descriptor files instead.`, { effect: 'none' })
}
