import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { emptyFolder } from '../launcher/driver.fixture.ts'
import { checkLanguage, createLanguages, languagesIn, programFolders } from './languages.ts'

const row = { name: 'lua', file: 'main.lua', command: ['lua', '{file}'] } as const

function issuesOf(work: () => unknown, code: string): readonly { readonly path: string; readonly message: string }[] {
  try {
    work()
  } catch (error) {
    assert.ok(ToolError.is(error) && error.code === code, String(error))
    return error.details?.issues ?? []
  }
  return assert.fail('nothing was thrown')
}

test('a language is found by its name and aliases, in any letter case', () => {
  const languages = createLanguages()
  for (const [name, found] of [
    ['python', 'python'],
    ['PY', 'python'],
    ['Js', 'javascript'],
    ['sh', 'bash'],
    ['c++', 'cpp'],
  ] as const) {
    assert.equal(languages.get(name).name, found)
  }
})

test('an unknown language is invalid input, and the error suggests similar names', () => {
  assert.throws(
    () => createLanguages().get('pyhton'),
    (error) => {
      assert.ok(ToolError.is(error))
      assert.deepEqual([error.code, error.details?.nearest?.[0]], ['INPUT_INVALID', 'python'])
      assert.match(error.message, /"pyhton" is not a language that is set up; did you mean "python"/)
      assert.equal(error.details?.issues?.[0]?.path, '/language')
      return true
    },
  )
  for (const name of ['', '__proto__', 'constructor', 'x'.repeat(10_000), '\u202e']) {
    assert.deepEqual(issuesOf(() => createLanguages().get(name), 'INPUT_INVALID')[0]?.path, '/language')
  }
})

test('every built-in language definition passes checkLanguage', () => {
  const { all } = createLanguages()
  for (const language of all) checkLanguage(language)
  assert.deepEqual(
    all.map(({ name }) => name),
    ['python', 'javascript', 'typescript', 'bash', 'go', 'ruby', 'c', 'cpp', 'java', 'perl', 'php'],
  )
  assert.equal(createLanguages([...all]).all.length, all.length)
})

test('a configured language is added, or replaces a built-in one with the same name', () => {
  assert.deepEqual(createLanguages([row]).get('lua'), row)
  const own = { ...row, name: 'bash', aliases: ['sh'] }
  const languages = createLanguages([own])
  assert.deepEqual([languages.get('bash'), languages.get('sh')], [own, own])
  assert.equal(languages.all.filter(({ name }) => name === 'bash').length, 1)
})

test('two languages cannot share a name or alias', () => {
  assert.throws(() => createLanguages([row, row]), /The name "lua" is used by two languages/)
  assert.throws(() => createLanguages([{ ...row, aliases: ['py'] }]), /The name "py" is used by two languages/)
})

test('an invalid language definition is refused with the path of every issue', () => {
  const wrong: readonly (readonly [object, string])[] = [
    [{ ...row, name: 'Lua' }, '/0/name'],
    [{ ...row, aliases: ['a b'] }, '/0/aliases'],
    [{ ...row, file: '../main.lua' }, '/0/file'],
    [{ ...row, file: 'a/b.lua' }, '/0/file'],
    [{ ...row, command: [] }, '/0/command'],
    [{ ...row, command: ['lua', 'a\0b'] }, '/0/command'],
    [{ ...row, command: ['lua', '{path}'] }, '/0/command'],
    [{ ...row, command: undefined }, '/0/command'],
    [{ ...row, driver: ['lua'] }, '/0/command'],
    [{ ...row, command: undefined, driver: ['lua'], compile: ['luac'] }, '/0/compile'],
    [{ ...row, needs: ['/bin/lua'] }, '/0/needs'],
    [{ ...row, needs: ['..'] }, '/0/needs'],
    [{ ...row, env: { 'A=B': 'x' } }, '/0/env'],
    [{ ...row, env: { A: 1 } }, '/0/env'],
    [{ ...row, install: 5 }, '/0/install'],
    [{ ...row, comand: ['lua'] }, '/0/comand'],
  ]
  for (const [value, path] of wrong) {
    const issues = issuesOf(() => createLanguages([value as typeof row]), 'CONFIG_INVALID')
    assert.deepEqual(
      issues.map((issue) => issue.path),
      [path],
      JSON.stringify(value),
    )
  }
  const all = issuesOf(() => checkLanguage({ name: 1, file: 2, command: 3 }), 'CONFIG_INVALID')
  assert.deepEqual(
    all.map(({ path }) => path),
    ['/name', '/file', '/command'],
  )
  assert.deepEqual(issuesOf(() => checkLanguage(null), 'CONFIG_INVALID')[0]?.path, '')
  const [unknown] = issuesOf(() => checkLanguage({ ...row, comand: [] }), 'CONFIG_INVALID')
  assert.match(unknown?.message ?? '', /did you mean "command"/)
})

test('a language is available when all of its programs are installed; the others name what to install', () => {
  const here = new Set(['/usr/bin/python3', '/bin/bash', '/usr/local/bin/java'])
  const { available, missing } = languagesIn(createLanguages([row]), (path) => here.has(path))
  assert.deepEqual(available, ['python', 'javascript', 'typescript', 'bash', 'lua'])
  assert.match(missing.get('java')?.reason ?? '', /There is no javac in .*\/usr\/bin.* which java needs/)
  assert.match(missing.get('c')?.remedy ?? '', /apt-get install gcc libc6-dev/)
  const own = createLanguages([{ ...row, needs: ['lua'] }])
  assert.equal(languagesIn(own, () => false).missing.get('lua')?.remedy, 'Install lua there.')
})

/** A program in each language that is written to a file: prints its standard input and 42, and ends with 3. */
const programs: { readonly [language: string]: string } = {
  bash: 'read -r line; echo "$line $((6*7))"; exit 3',
  perl: 'my $line = <STDIN>; chomp $line; print "$line ", 6 * 7, "\\n"; exit 3;',
  ruby: 'puts "#{gets.chomp} #{6 * 7}"; exit 3',
  php: '<?php echo trim(fgets(STDIN)), " ", 6 * 7, "\\n"; exit(3);',
  c: '#include <stdio.h>\nint main(void){char line[9];fgets(line,4,stdin);printf("%s %d\\n",line,6*7);return 3;}',
  cpp: '#include <iostream>\nint main(){std::string line;std::cin>>line;std::cout<<line<<" "<<6*7<<std::endl;return 3;}',
  go: 'package main\nimport ("fmt";"os")\nfunc main(){var l string;fmt.Scan(&l);fmt.Println(l,6*7);os.Exit(3)}',
  java: `class Any { public static void main(String[] a) { System.out.println(new java.util.Scanner(System.in).next() + " " + 6*7);
    System.exit(3); } }`,
}

for (const language of createLanguages().all) {
  if (language.driver !== undefined) continue
  const { name, file, compile, command } = language
  const reason = languagesIn({ all: [language] }, existsSync).missing.get(name)?.reason
  test(`${name} compiles and runs by its language definition`, { skip: reason ?? false }, (t) => {
    const folder = emptyFolder(t)
    const path = join(folder, file)
    writeFileSync(path, programs[name] ?? '')
    const env = { PATH: programFolders.join(':'), HOME: folder, TMPDIR: folder, LANG: 'C.UTF-8', ...language.env }
    const words = (list: readonly string[]) => list.map((word) => word.replace('{file}', path))
    const run = ([program = '', ...rest]: readonly string[]) =>
      execFileSync(program, rest, { cwd: folder, env, input: 'abc\n', encoding: 'utf8', stdio: 'pipe' })
    if (compile !== undefined) run(words(compile))
    assert.throws(
      () => run(words(command)),
      (error: Error & { status?: number; stdout?: string }) => {
        assert.deepEqual([error.status, error.stdout], [3, 'abc 42\n'], error.message)
        return true
      },
    )
  })
}
