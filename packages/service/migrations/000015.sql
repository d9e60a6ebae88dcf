-- An approval shows the arguments exactly. Large ones are a file, named by its digest; what is hidden in them is listed.
alter table approvals add column args_ref text;
alter table approvals add column args_sha256 text;
alter table approvals add column hidden text not null default '[]';
-- Of a decision on a call of one's own: by which right.
alter table approvals add column decided_as text;

-- The key of the digests that stand for hidden parts of arguments: one for all processes, and for none but the service.
create table redaction_keys (
  key           text not null
);
insert into redaction_keys select encode(sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')), 'hex');
