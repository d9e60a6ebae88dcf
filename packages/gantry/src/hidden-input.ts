import { StringDecoder } from 'node:string_decoder'
import { ToolError } from '@gantry/contract'

/** A terminal as far as it is needed to read from it without showing what is typed. */
export interface HiddenInput extends NodeJS.EventEmitter {
  setRawMode(on: boolean): unknown
  resume(): unknown
  pause(): unknown
}

/** Enter, and ctrl-d. */
const ends = '\r\n\u0004'
const backspaces = '\u0008\u007f'
const [ctrlC, ctrlU] = ['\u0003', '\u0015']

/**
 * One line that is typed without showing. Enter or ctrl-d ends it, backspace and ctrl-u take back, ctrl-c cancels, and
 * what else steers a terminal is left out. The terminal is as before when it is over, however it ended.
 */
export async function readHidden(input: HiddenInput, limit: number, signal: AbortSignal): Promise<string> {
  signal.throwIfAborted()
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const decoder = new StringDecoder('utf8')
  const cancel = (): void => reject(signal.reason)
  let typed: string[] = []
  const type = (chunk: Buffer): void => {
    for (const character of decoder.write(chunk)) {
      if (ends.includes(character)) resolve(typed.join(''))
      else if (character === ctrlC) reject(new ToolError('CANCELLED', 'Cancelled.', { effect: 'none' }))
      else if (backspaces.includes(character)) typed.pop()
      else if (character === ctrlU) typed = []
      else if (character >= ' ' && typed.length <= limit) typed.push(character)
    }
  }
  const close = (): void => resolve(typed.join(''))
  input.setRawMode(true)
  input.on('data', type)
  input.on('end', close)
  signal.addEventListener('abort', cancel, { once: true })
  input.resume()
  try {
    return await promise
  } finally {
    signal.removeEventListener('abort', cancel)
    input.off('data', type)
    input.off('end', close)
    input.pause()
    input.setRawMode(false)
  }
}
