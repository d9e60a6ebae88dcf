-- What becomes of a call whose circuit is open, as its caller or its tool chose; it fails when null.
alter table calls add column on_circuit_open text;
