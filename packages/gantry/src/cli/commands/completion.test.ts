import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { commands, listedCommands } from '../command-table.ts'
import { bashCompletion, fishCompletion, zshCompletion } from './completion.ts'

const scripts = { bash: bashCompletion(), zsh: zshCompletion(), fish: fishCompletion() }

function missing(shell: string): string | false {
  return spawnSync(shell, ['-c', 'exit 0']).status === 0 ? false : `${shell} is not installed`
}

/** What bash offers for a line, with two tools that exist. */
function offers(line: string): string[] {
  const probe = `${scripts.bash}
gantry() { printf '%s\\n' demo:add demo:echo; }
COMP_LINE=$1 COMP_POINT=\${#1}
read -ra COMP_WORDS <<< "$1"; [[ $1 == *' ' ]] && COMP_WORDS+=('')
COMP_CWORD=$((\${#COMP_WORDS[@]} - 1))
_gantry
printf '%s\\n' "\${COMPREPLY[@]}"`
  const printed = execFileSync('bash', ['--norc', '-c', probe, 'probe', line], { encoding: 'utf8' })
  return printed.split('\n').filter((word) => word !== '')
}

test('bash completes commands, options, tools and values', { skip: missing('bash') }, () => {
  assert.deepEqual(offers('gantry des'), ['describe'])
  assert.deepEqual(offers('gantry config '), ['check'])
  assert.deepEqual(offers('gantry tools d'), ['diff'])
  assert.deepEqual(offers('gantry tools --na'), ['--namespace'])
  assert.deepEqual(offers('gantry tools approve '), ['demo:add', 'demo:echo'])
  assert.deepEqual(offers('gantry run --time'), ['--timeout'])
  assert.deepEqual(offers('gantry stream --ba'), ['--backend'])
  assert.deepEqual(offers('gantry run --backend http:x dem'), ['demo:add', 'demo:echo'])
  assert.deepEqual(offers('gantry run '), ['demo:add', 'demo:echo'])
  assert.deepEqual(offers('gantry run --timeout 5s dem'), ['demo:add', 'demo:echo'])
  assert.deepEqual(offers('gantry run demo:a'), ['add'])
  assert.deepEqual(offers('gantry describe demo:add --level s'), ['summary', 'schema'])
  assert.deepEqual(offers('gantry completion '), ['bash', 'zsh', 'fish'])
})

/** Hands a script to a shell as a file, as its users do. */
function withFile<T>(shell: keyof typeof scripts, use: (file: string) => T): T {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-completion-'))
  try {
    const file = join(folder, `gantry.${shell}`)
    writeFileSync(file, scripts[shell])
    return use(file)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

for (const shell of ['zsh', 'fish'] as const) {
  test(`${shell} parses its completion script`, { skip: missing(shell) }, () => {
    const { status, stderr } = withFile(shell, (file) => spawnSync(shell, ['-n', file], { encoding: 'utf8' }))
    assert.equal(status, 0, stderr)
  })
}

test('fish completes commands and options', { skip: missing('fish') }, () => {
  const offered = (line: string) =>
    withFile('fish', (file) => {
      const probe = `function gantry; end; source ${file}; complete -C '${line}'`
      const { stdout, stderr } = spawnSync('fish', ['--no-config', '-c', probe], { encoding: 'utf8' })
      assert.equal(stderr, '')
      return stdout.split('\n').map((row) => row.split('\t')[0])
    })
  assert.ok(offered('gantry des').includes('describe'))
  assert.ok(offered('gantry run --time').includes('--timeout'))
})

test('every completion script has every command and option, and balanced quotes', () => {
  for (const [shell, script] of Object.entries(scripts)) {
    for (const [name, info] of listedCommands()) {
      for (const word of name.split(' ')) assert.ok(script.includes(word), `${shell} ${word}`)
      for (const option of info.options) assert.ok(script.includes(option), `${shell} --${option}`)
    }
    for (const line of script.split('\n').filter((each) => !each.startsWith('#'))) {
      const quotes = line.replaceAll(`'\\''`, '').replaceAll("\\'", '').split("'").length - 1
      assert.equal(quotes % 2, 0, `${shell}: ${line}`)
    }
  }
  assert.ok(Object.keys(commands).includes('__complete'))
})
