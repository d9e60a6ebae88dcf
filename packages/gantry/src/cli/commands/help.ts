import { readFileSync } from 'node:fs'
import { findPackageJSON } from 'node:module'
import { type CommandName, commandGroup, commands } from '../command-table.ts'
import { commandHelp, groupHelp, overview } from '../help.ts'
import type { Command } from '../io.ts'
import { quoted } from '../option-values.ts'
import { unknownName } from '../usage.ts'

/** Explains one command or all; also answers `--version`. */
export const execute: Command = async ({ operands, options }, io) => {
  if (options.version === true) {
    const manifest = findPackageJSON('.', import.meta.url)
    const { version } = JSON.parse(manifest === undefined ? '{}' : readFileSync(manifest, 'utf8'))
    await io.out(`gantry ${version}\n`)
    return 0
  }
  const wanted = operands.join(' ')
  if (wanted === '') await io.out(overview())
  else if (Object.hasOwn(commands, wanted)) await io.out(commandHelp(wanted as CommandName))
  else if (commandGroup(wanted).length > 0) await io.out(groupHelp(wanted))
  else throw await unknownName('command', `There is no command ${quoted(wanted)}.`, wanted, Object.keys(commands))
  return 0
}
