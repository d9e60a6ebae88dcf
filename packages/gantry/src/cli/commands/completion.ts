import { bashCompletion } from '../completion/bash.ts'
import { fishCompletion } from '../completion/fish.ts'
import { zshCompletion } from '../completion/zsh.ts'
import type { Command } from '../io.ts'
import { quoted } from '../option-values.ts'
import { unknownName } from '../usage.ts'

const scripts = new Map([
  ['bash', bashCompletion],
  ['zsh', zshCompletion],
  ['fish', fishCompletion],
])

/** Prints the script that teaches a shell our commands. */
export const execute: Command = async ({ operands: [shell = ''] }, io) => {
  const script = scripts.get(shell)
  if (script === undefined) {
    throw await unknownName(
      'shell',
      `There is no completion for ${quoted(shell)}; there is for bash, zsh and fish.`,
      shell,
      scripts.keys(),
    )
  }
  await io.out(script())
  return 0
}
