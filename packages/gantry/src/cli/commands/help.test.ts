import assert from 'node:assert/strict'
import { test } from 'node:test'
import { codes } from '@gantry/contract'
import { commands, listedCommands } from '../command-table.ts'
import { parseCommandLine } from '../parse.ts'
import { commandHelp, exitCodes, overview } from './help.ts'

test('the overview lists every command except hidden ones', () => {
  const text = overview()
  for (const [name] of listedCommands()) assert.match(text, new RegExp(`^  ${name}`, 'm'))
  assert.doesNotMatch(text, /__complete/)
})

test('the help of each command explains its options and has examples', () => {
  for (const [name, info] of listedCommands()) {
    const text = commandHelp(name)
    assert.ok(text.includes(info.summary))
    for (const option of info.options) assert.ok(text.includes(`--${option}`), `${name} --${option}`)
    assert.ok(info.examples.length > 0, name)
  }
})

test('every exit code of the error table is explained', () => {
  for (const { exit } of Object.values(codes)) assert.ok(exitCodes[exit] !== undefined, String(exit))
})

test('every example is a command line that parses', async () => {
  for (const { examples } of Object.values(commands)) {
    for (const { line } of examples) {
      const [, command = ''] = /gantry ([^>)]*)/.exec(line) ?? []
      const words = [...command.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '')
      await assert.doesNotReject(parseCommandLine(words), line)
    }
  }
})
