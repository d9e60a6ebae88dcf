import { ToolError } from '@gantry/contract'
import type { Channel } from './channel.ts'
import { readDescriptors } from './descriptors.ts'
import type { GrpcOptions } from './options.ts'
import { loadFiles } from './proto-files.ts'
import { reflect } from './reflection.ts'
import { type MethodType, methodKey, type Types } from './types.ts'
import { WireError } from './wire.ts'

/** Reads what the server serves, from the files that the options name or by asking it. */
export async function readTypes(
  { proto, includeDirs = [] }: GrpcOptions,
  channel: Channel,
  metadata: () => Promise<{ readonly [name: string]: string }>,
  signal: AbortSignal,
): Promise<Types> {
  if (proto === undefined) {
    const descriptors = await reflect(channel, await metadata(), signal).catch(beforeAnyCall)
    return understood('The descriptors of the server', () => readDescriptors(descriptors), 'none')
  }
  const { descriptors, comments } = await loadFiles(typeof proto === 'string' ? [proto] : proto, includeDirs)
  const types = understood('The descriptors in the files', () => readDescriptors(descriptors), 'none')
  return { ...types, methods: new Map([...types.methods].map(([key, method]) => [key, commented(method, comments)])) }
}

/** Whatever goes wrong here, the tool that somebody wanted to call did not run. */
function beforeAnyCall(error: unknown): never {
  if (error instanceof WireError) throw unreadable('What the server says of itself', error, 'none')
  if (!ToolError.is(error)) throw error
  const { code, message, retryable, details, cause } = error
  throw new ToolError(code, message, {
    effect: 'none',
    retryable,
    cause,
    ...(details === undefined ? {} : { details }),
  })
}

function commented(method: MethodType, comments: ReadonlyMap<string, string>): MethodType {
  return method.comment === '' ? { ...method, comment: comments.get(methodKey(method)) ?? '' } : method
}

/** Reads bytes; those that are not what they should be are a failure of whoever sent them. */
export function understood<Value>(what: string, read: () => Value, effect: 'none' | 'possible'): Value {
  try {
    return read()
  } catch (error) {
    throw error instanceof WireError ? unreadable(what, error, effect) : error
  }
}

function unreadable(what: string, cause: WireError, effect: 'none' | 'possible'): ToolError {
  return new ToolError('BACKEND_FAILED', `${what} cannot be read.`, { cause, effect })
}
