//! The two test users, each in a group of its own.

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::admin::Admin;
use super::changes::Changes;
use super::password::Secret;
use super::provider::ADMIN;

pub(super) struct TestUser {
    pub(super) name: &'static str,
    pub(super) group: &'static str,
    /// Marks the user as created by `gwctl`: this domain is reserved, so no real address is in it (RFC 2606).
    email: &'static str,
    last_name: &'static str,
}

pub(super) const USERS: [TestUser; 2] = [
    TestUser {
        name: "user1",
        group: "users",
        email: "user1@gwctl.example",
        last_name: "One",
    },
    TestUser {
        name: "user2",
        group: "admins",
        email: "user2@gwctl.example",
        last_name: "Two",
    },
];

impl TestUser {
    /// Creates or corrects the user. Prompts for a password if the user is new.
    ///
    /// # Errors
    /// The provider refuses, there is no password, or the name is taken.
    pub(super) async fn ensure(
        &self,
        admin: &Admin,
        password: impl FnOnce() -> Result<Secret>,
        changes: &mut Changes,
    ) -> Result<()> {
        let name = self.name;
        let Some(mut user) = self.find(admin).await? else {
            let user = self.to_create(&password()?);
            admin.create("create a user", &path(), &user).await?;
            changes.record(format_args!(
                "created the user {name} of group `{}`",
                self.group
            ));
            return Ok(());
        };
        if !self.owns(&user) {
            bail!("the user {name} exists and was not created by gwctl: rename or delete it");
        }
        if self.is_up_to_date(&user) {
            return Ok(());
        }
        let id = user["id"].as_str().unwrap_or_default().to_owned();
        // The complete user: omitted fields would be removed.
        user["enabled"] = true.into();
        user["attributes"]["group"] = json!([self.group]);
        let path = format!("{}/{id}", path());
        admin.update("correct a user", &path, &user).await?;
        changes.record(format_args!(
            "put the user {name} into group `{}`",
            self.group
        ));
        Ok(())
    }

    /// Deletes the user, if it is ours.
    ///
    /// # Errors
    /// The provider refuses.
    pub(super) async fn remove(&self, admin: &Admin, changes: &mut Changes) -> Result<()> {
        let user = self.find(admin).await?;
        let Some(user) = user.filter(|user| self.owns(user)) else {
            return Ok(());
        };
        let id = user["id"].as_str().unwrap_or_default();
        if admin
            .delete("delete a user", &format!("{}/{id}", path()))
            .await?
        {
            changes.record(format_args!("deleted the user {}", self.name));
        }
        Ok(())
    }

    /// Whether the user exists, with the settings that `setup` gives it.
    ///
    /// # Errors
    /// The provider refuses.
    pub(super) async fn exists(&self, admin: &Admin) -> Result<bool> {
        let user = self.find(admin).await?;
        Ok(user.is_some_and(|user| self.owns(&user) && self.is_up_to_date(&user)))
    }

    async fn find(&self, admin: &Admin) -> Result<Option<Value>> {
        let path = format!("{}?username={}&exact=true", path(), self.name);
        let mut users: Vec<Value> = admin.read("look for a user", &path).await?;
        Ok(users.pop())
    }

    fn owns(&self, user: &Value) -> bool {
        user["email"] == self.email
    }

    fn is_up_to_date(&self, user: &Value) -> bool {
        user["enabled"] == true && user["attributes"]["group"] == json!([self.group])
    }

    fn to_create(&self, password: &Secret) -> Value {
        json!({
            "username": self.name,
            "email": self.email,
            "firstName": "Test",
            "lastName": self.last_name,
            "enabled": true,
            "attributes": {"group": self.group},
            "credentials": [
                {"type": "password", "value": password.reveal(), "temporary": false}
            ],
        })
    }
}

fn path() -> String {
    format!("{ADMIN}/users")
}
